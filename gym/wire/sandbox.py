"""Requests and replies of the sandbox broker: intents, never Docker calls. No I/O.

Requests refuse unknown keys: a misspelt field that was meant to change the isolation is an error, not ignored.
"""

from __future__ import annotations

import base64
import hmac
import re
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

SIZE: Final = re.compile(r"^\s*(\d{1,18}(?:\.\d{1,18})?)\s*([kmgt]?)i?b?\s*$", re.IGNORECASE)
UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
HOST: Final = r"^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
OPERATOR: Final = "operator"  # whose sandboxes people make by hand; no instance with a grant has this name

HEADER_EPOCH: Final = "x-gym-broker"  # one run of the broker: a retry is not carried out by the next run
HEADER_REQUEST: Final = "x-gym-request-id"  # a retried request with the same id never runs twice
Access = Literal["none", "internet", "allow"]


def parse_size(given: Any) -> Any:
    """`512m`, `2g`, `1.5GiB` -> bytes; numbers are bytes already."""
    if not isinstance(given, str):
        return given
    found = SIZE.match(given)
    if found is None:
        raise ValueError(f"{given!r} is not a size: write 512m, 2g or a number of bytes")
    return int(float(found[1]) * UNITS[found[2].lower()])


def token_digest(token: str) -> str:
    """What the broker is given of a token. It compares digests, and keeps no token."""
    return sha256(token.encode()).hexdigest()


def share_key(token_sha256: str, sandbox: str) -> str:
    """What lets other instances into one sandbox: made of its owner's token, so that the broker has nothing to keep."""
    return hmac.new(token_sha256.encode(), b"share " + sandbox.encode(), sha256).hexdigest()


def show_size(size: int) -> str:
    """As a person writes it, where a unit fits: `3g`; else the number of bytes."""
    unit, factor = next((pair for pair in reversed(UNITS.items()) if size and size % pair[1] == 0), ("", 1))
    return f"{size // factor}{unit}"


def to_bytes(given: Any) -> Any:
    """JSON has bytes in base64 (`{"base64": ...}`) or as text."""
    if isinstance(given, dict) and set(given) == {"base64"}:
        if not isinstance(given["base64"], str):
            raise ValueError("`base64` takes a text")
        return base64.b64decode(given["base64"], validate=True)
    return given.encode("utf-8", "surrogateescape") if isinstance(given, str) else given


def from_bytes(given: bytes) -> str | dict[str, str]:
    """Text where it is UTF-8, base64 where it is not: nothing is lost either way."""
    try:
        return given.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(given).decode()}


Size = Annotated[int, BeforeValidator(parse_size), Field(ge=1)]
Data = Annotated[bytes, BeforeValidator(to_bytes), PlainSerializer(from_bytes, when_used="json")]


class BrokerRequest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class BrokerReply(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Limits(BrokerRequest):
    cpus: float = Field(default=1.0, gt=0, le=256)
    memory: Size = 512 << 20
    pids: int = Field(default=256, ge=4, le=32768)
    disk: Size | None = None  # of the whole writable layer: set in the engine where it can, else measured by the broker


class Network(BrokerRequest):
    """`none`, `internet`, or `allow: [hosts]`; `setup` is what the sandbox may reach until it is sealed."""

    access: Access = "none"
    allow: tuple[Annotated[str, Field(pattern=HOST)], ...] = ()
    setup: Network | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        if isinstance(given, str):
            return {"access": given}
        if isinstance(given, dict) and "allow" in given and "access" not in given:
            return {"access": "allow", **given}
        return given

    @model_validator(mode="after")
    def _whole(self) -> Network:
        if (self.access == "allow") != bool(self.allow):
            raise ValueError("`allow` takes a list of at least one host, and only `allow` takes one")
        if self.setup is not None and self.setup.setup is not None:
            raise ValueError("a setup phase has no setup phase of its own")
        return self


def phases_of(network: Network) -> tuple[Network, ...]:
    """In the order in which they come."""
    return (network,) if network.setup is None else (network.setup, network)


def through_gate(network: Network) -> bool:
    """Whether a phase needs the egress gate."""
    return any(phase.access == "allow" for phase in phases_of(network))


class Build(BrokerRequest):
    """An image made from text: the Dockerfile and the small files beside it."""

    dockerfile: str
    files: dict[str, Data] = Field(default_factory=dict)
    args: dict[str, str] = Field(default_factory=dict)
    network: bool = True  # whether its RUN steps reach the network
    timeout: float = Field(default=1800.0, gt=0, le=4 * 3600)  # builds share few slots


class SandboxSpec(BrokerRequest):
    """One sandbox. What is left out is the safe choice."""

    image: str | None = None
    build: Build | None = None
    command: tuple[str, ...] = ()  # runs as the first job; the sandbox does not end with it
    env: dict[str, str] = Field(default_factory=dict)
    workdir: str | None = None
    user: str | None = None
    limits: Limits = Limits()
    network: Network = Network()
    mounts: dict[str, Size] = Field(default_factory=dict)  # tmpfs alone: path -> size
    read_only: bool = False
    runtime: Literal["runsc", "kata"] | None = None
    ttl: float = Field(default=3600.0, gt=0, le=7 * 86400)
    labels: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_source(self) -> SandboxSpec:
        if (self.image is None) == (self.build is None):
            raise ValueError("a sandbox is made from `image` or from `build`: name one of them")
        return self


class Rlimits(BrokerRequest):
    """Limits of one command, beside those of its sandbox."""

    cpu_seconds: int | None = Field(default=None, ge=1)
    memory: Size | None = None  # address space
    file_size: Size | None = None
    processes: int | None = Field(default=None, ge=1)
    open_files: int | None = Field(default=None, ge=8)


class ExecRequest(BrokerRequest):
    """`argv` as it stands, or `shell`: a line for /bin/sh -c (bash where `shell_path` says so)."""

    argv: tuple[str, ...] = ()
    shell: str | None = None
    shell_path: str = "/bin/sh"
    cwd: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    stdin: Data = b""
    timeout: float = Field(default=60.0, gt=0, le=86400)
    user: str | None = None
    max_output: Size = 1 << 20  # per stream; head and tail are kept, the cut is marked
    kill_leftovers: bool = False  # also kill what the command left running in the background
    limits: Rlimits = Rlimits()
    stream: bool = False
    id: str | None = None  # a repeated id gets the same reply, and nothing runs twice

    @model_validator(mode="after")
    def _one_command(self) -> ExecRequest:
        if bool(self.argv) == (self.shell is not None):
            raise ValueError("a command is `argv` or `shell`: give one of them")
        return self

    def words(self) -> tuple[str, ...]:
        return self.argv or (self.shell_path, "-c", self.shell or "")


class Output(BrokerReply):
    """One stream of a command, whole or with its middle cut out; `dropped` bytes are missing after `head`."""

    head: Data = b""
    tail: Data = b""
    dropped: int = 0

    @property
    def data(self) -> bytes:
        if not self.dropped:
            return self.head + self.tail
        return self.head + b"\n[... %d bytes cut ...]\n" % self.dropped + self.tail

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class ExecResult(BrokerReply):
    """The result of a command. `exit_code` is None when a signal ended it, `signal` None when none did."""

    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    oom: bool = False  # the kernel killed something in this sandbox for memory while the command ran
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    max_rss: int = 0
    stdout: Output = Output()
    stderr: Output = Output()

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out


JobState = Literal["running", "ended", "lost"]


class JobInfo(BrokerReply):
    id: str
    state: JobState
    argv: tuple[str, ...] = ()
    result: ExecResult | None = None  # output so far while it runs


class FileInfo(BrokerReply):
    path: str
    kind: Literal["file", "dir", "link", "other"]
    size: int = 0
    mode: int = 0
    mtime: float = 0.0
    uid: int = 0
    gid: int = 0
    target: str | None = None  # of a link


ProviderName = Literal["auto", "docker", "bubblewrap", "subprocess", "kubernetes"]
SandboxState = Literal["running", "lost"]


class SandboxInfo(BrokerReply):
    id: str
    state: SandboxState
    image: str
    instance: str
    rollout: str = ""
    stack: str = ""
    provider: str = ""
    network: Access = "none"
    sealed: bool = True
    created: float = 0.0  # seconds since the epoch
    expires: float = 0.0
    labels: dict[str, str] = Field(default_factory=dict)
    parent: str | None = None  # of a fork
    why_lost: str = ""
    own_doing: bool = False  # it was lost by what ran in it: its limits of memory or disk


class Grant(BaseModel):
    """What one instance may ask for: `sandbox:` in its config. Nothing is granted by default."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    images: tuple[str, ...] = ()
    """Patterns of the images that it may ask for, such as `swe-*`; none means no image at all."""
    build: bool = False
    """Whether images may be built from a Dockerfile of its own. The steps of a build reach the network."""
    network: tuple[Access, ...] = ("none",)
    """What a sandbox may ask for: `none`, `internet`, or `allow`, which names hosts."""
    hosts: tuple[str, ...] = ()
    """Patterns of the host names that `allow` may name."""
    runtimes: tuple[Literal["runsc", "kata"], ...] = ()
    """Stronger isolation that a sandbox may ask for, where the engine has them."""
    max_sandboxes: int = Field(default=64, ge=1)
    """The most sandboxes at once, of this instance."""
    max_cpus: float = Field(default=4.0, gt=0)
    """The most CPUs that one sandbox may ask for."""
    max_memory: Size = 8 << 30
    """The most memory that one sandbox may ask for, in bytes or as `2g`."""
    max_pids: int = Field(default=4096, ge=4)
    """The most processes that one sandbox may ask for."""
    max_disk: Size = 20 << 30
    """The most disk that one sandbox may ask for, in bytes or as `10g`."""
    max_ttl: float = Field(default=6 * 3600.0, gt=0)
    """The longest life that a sandbox may ask for, in seconds; each extension counts again."""
    warm: int = Field(default=4, ge=0)
    """At most so many ready sandboxes of one kind are kept for it; 0: none."""
    prefetch: tuple[str, ...] = ()
    """Images to have before the first rollout."""


def name_call(method: str, path: str) -> tuple[str, str]:
    """`POST /sandboxes/x/exec` is `exec` of x."""
    parts = path.partition("?")[0].strip("/").split("/")
    if parts[0] != "sandboxes":
        return parts[-1], ""
    if len(parts) < 3:
        verb = {"POST": "create", "DELETE": "remove"}.get(method, "look")
        return verb, "".join(parts[1:2])
    return parts[2] if method != "DELETE" else f"{parts[2]} end", parts[1]

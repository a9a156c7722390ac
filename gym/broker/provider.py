"""What makes sandboxes real: an engine, bubblewrap, or plain processes. The broker knows no more of them than this."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple, Protocol

from gym.wire.sandbox import Access, Build, ExecRequest, ExecResult, FileInfo, Network, SandboxSpec

OnOutput = Callable[[int, bytes], None]  # stream number (1 stdout, 2 stderr), bytes as they come
Progress = Callable[[str], None]  # one line of what is being fetched or built


class Tags(NamedTuple):
    """Who a sandbox belongs to: what its labels say, and how it is found after a crash."""

    id: str
    stack: str
    instance: str
    owner: str  # the client process; its lease keeps the sandbox
    rollout: str = ""
    expires: float = 0.0  # seconds since the epoch
    warm: str = ""  # key of the pool it waits in; "" once handed out
    parent: str = ""
    request: str = ""  # the id by which its request is known, where another broker has to know it again


class Abilities(NamedTuple):
    """What a provider can do; the rest is refused with a reason before anything is made."""

    isolates: bool
    images: bool  # `image`/`build` mean something; without, every sandbox is this machine's own file system
    networks: tuple[Access, ...]
    users: bool  # `user` may name another user
    forks: bool
    limits: bool  # memory, cpus and pids are enforced
    lasting: bool = True  # a sandbox can outlive its broker, for the next one to find


class Process(Protocol):
    """A command that runs on while others do: a job, a shell."""

    @property
    def running(self) -> bool: ...

    async def write(self, data: bytes) -> None: ...

    async def close_stdin(self) -> None: ...

    async def resize(self, rows: int, columns: int) -> None: ...

    async def kill(self, signal: int = 9) -> None:
        """The whole tree, inside."""

    async def wait(self) -> ExecResult: ...

    def result_so_far(self) -> ExecResult: ...

    async def peek(self) -> ExecResult:
        """As `result_so_far`, with the end of what it wrote, which may still be kept inside."""

    def hold(self) -> None:
        """Stops acknowledging live output, until `release`."""

    def release(self) -> None: ...


class NamedProcess(Process, Protocol):
    @property
    def name(self) -> str: ...


class Channel(Protocol):
    """The connection into one sandbox. Everything that happens inside goes through it."""

    @property
    def adopted(self) -> Sequence[NamedProcess]:
        """Jobs that an earlier broker started and that still run."""

    @property
    def closed(self) -> bool: ...

    async def wait_closed(self) -> str:
        """Returns when the channel is closed, with the reason."""

    async def exec(self, request: ExecRequest, on_output: OnOutput | None = None) -> ExecResult: ...

    async def start(
        self, request: ExecRequest, on_output: OnOutput | None = None, *, tty: tuple[int, int] | None = None
    ) -> Process:
        """With its stdin open, until `close_stdin`; `tty` is (rows, columns)."""

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None, append: bool = False) -> None: ...

    async def write_pieces(
        self, path: str, pieces: AsyncIterator[bytes], *, mode: int | None = None, append: bool = False
    ) -> None:
        """Replaces the file once all pieces are there; a transfer that breaks off leaves the old file."""

    async def read_file(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes: ...

    async def stat(self, path: str) -> FileInfo: ...

    async def list(self, path: str, *, recursive: bool = False) -> Sequence[FileInfo]: ...

    async def make_dir(self, path: str, *, mode: int | None = None) -> None:
        """Parents too."""

    async def make_link(self, path: str, target: str) -> None: ...

    async def remove(self, path: str, *, recursive: bool = False) -> None: ...

    async def set_times(self, path: str, mtime: float) -> None: ...


class EgressSettings(NamedTuple):
    """How a sandbox uses its egress gate: variables (NAME=value), and its resolver."""

    env: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()


class EgressGate(Protocol):
    """`allow: [hosts]`: lets listed hosts through and logs each request; the sandbox has no network of its own."""

    def attach(self, tags: Tags, network: Network) -> EgressSettings:
        """Before the sandbox is made; `network` is the phase that it begins with."""

    async def open(self, tags: Tags, channel: Channel) -> None:
        """As soon as it runs; from now on what is allowed can be reached."""

    async def seal(self, tags: Tags, network: Network) -> None:
        """The phase is over, and what was open with it; `network` holds from here on. Once, and for good."""

    async def detach(self, tags: Tags) -> None:
        """Closes the gate for this sandbox. Idempotent."""


class ProviderSandbox(Protocol):
    """One sandbox that runs."""

    @property
    def tags(self) -> Tags: ...

    @property
    def spec(self) -> SandboxSpec: ...

    @property
    def own_doing(self) -> bool:
        """After `why_lost`: True when what ran in it caused its end, by its limits of memory or disk."""

    @property
    def channel(self) -> Channel: ...

    async def channel_as(self, user: str) -> Channel:
        """A channel as another user; the same one every time."""

    async def retag(self, tags: Tags) -> None:
        """New tags: it was handed out (from the warm pool), or its TTL was extended."""

    async def fork(self, tags: Tags) -> ProviderSandbox:
        """A new sandbox with this one's files, and none of its processes."""

    async def seal(self) -> None:
        """Ends the setup phase: from here on the network is what `run` may have."""

    async def why_lost(self) -> str:
        """After the channel closed by itself: killed for memory, engine gone, ..."""

    async def remove(self) -> None:
        """Idempotent; returns when nothing of it is left."""


class Provider(Protocol):
    name: str
    abilities: Abilities

    async def open(self) -> None:
        """Connects. Raises InfraError with the next command."""

    async def close(self) -> None:
        """Closes connections, not sandboxes."""

    async def ping(self) -> float:
        """How many seconds the engine took to answer; raises when it does not answer."""

    async def prepare(self, spec: SandboxSpec, progress: Progress | None = None) -> str:
        """Pulls or builds the image. Returns its id."""

    async def make_image(self, build: Build, progress: Progress | None = None) -> str: ...

    async def create(self, spec: SandboxSpec, tags: Tags) -> ProviderSandbox:
        """Starts a sandbox and opens its channel. Removes what it made when it raises."""

    def found(self, stack: str) -> AsyncIterator[tuple[Tags, Callable[[], object]]]:
        """Everything of this stack that an earlier broker left: its tags, and an awaitable that adopts it (-> Held)."""

    async def sweep(self, stack: str, keep: frozenset[str]) -> int:
        """Removes whatever carries this stack's labels and is not kept; how many."""

    async def collect_garbage(self, low: float, high: float) -> int:
        """Task images, least recently used first, from above `high` until below `low` of the disk; bytes."""

"""What the user wrote, merged, resolved and checked: a frozen `Stack` of `Instance`s."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from gym.wire.sandbox import Grant
from gym.wire.server_types import ServerType


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Location(Frozen):
    """Where in the user's files something was written; line 0 when it came from the command line."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class ServerRef(Frozen):
    """`{type, name}` in an instance's fields: this instance talks to that one."""

    type: ServerType
    name: str


class RayFacts(Frozen):
    """How a replica is placed on a Ray cluster, beyond its `cpus`, `memory` and `gpus`."""

    resources: dict[str, float] = Field(default_factory=dict)
    """Resources of your own names, as `ray start --resources` gives them to nodes."""
    placement_group: str = ""
    """The name of a placement group that is there already, such as a trainer's."""
    bundle: int = -1
    """Its bundle; any of them without it."""
    strategy: Literal["", "PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] = ""
    """A placement group of the instance's own, with a bundle for each replica, by this strategy of Ray's."""

    @model_validator(mode="after")
    def _one_group(self) -> RayFacts:
        if self.strategy and self.placement_group:
            raise ValueError("`strategy` makes a placement group of its own, and `placement_group` names another one")
        return self


class ContainerFacts(Frozen):
    """The extra fields of an instance that say how its replicas run, not what they do."""

    image: str | None = None
    """The image to run instead of a server's folder; it listens on port 8000. Containers only."""
    build: str | None = None
    """A folder with a Dockerfile of its own; `ARG GYM_BASE` is the base image with the SDK."""
    replicas: int = Field(default=1, ge=0, le=1000)
    """How many containers or processes it runs as; a session stays on the one it began on."""
    cpus: float | None = Field(default=None, gt=0)
    """The most CPUs that a replica's container gets; `0.5` is half of one."""
    memory: str | None = None
    """The most memory that a replica's container gets, as `512m` or `2g`; `4g` where nothing is said."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables of every replica. A secret among them never stands in a rendered file."""
    secrets: tuple[str, ...] = ()
    """Names of settings with a secret that this server may see, such as `[hf_token]`."""
    gpus: int | str | None = None
    """How many NVIDIA GPUs a replica's container gets, or `all`."""
    placement: dict[str, str] = Field(default_factory=dict)
    """Labels of the nodes that may run it, as `{disk: ssd}`. Elsewhere than on a Swarm it says nothing."""
    launch: str = "auto"
    """How the entry point is started: `sdk`, by this SDK; `script`, as a program that is given its address.

    `auto` decides by its requirements and imports."""
    python_version: str | None = None
    """The Python of its environment, in quotes: `"3.12"`, `"3.13.14"`, `">=3.12"`, or the path of an interpreter."""
    ray: RayFacts | None = None
    """Where its actors are placed, by `gym up --on ray`."""
    share: bool | None = None
    """Whether it may live in one process, or one container, with other instances of the same server that may, too.

    They end and restart together. Agents that come with gym, and the scripted model, do so where nothing is said.
    `gym up --share` and `--no-share` say it for all of them."""


class SidecarHealth(Frozen):
    """How a sidecar is asked whether it can serve."""

    kind: Literal["tcp", "http", "command", "none"] = "tcp"
    path: str = "/"  # of an HTTP check
    command: tuple[str, ...] = ()  # exit code 0: healthy


class SidecarSpec(Frozen):
    """One entry of `services:`: a program beside an instance, such as a database. Only the instance reaches it."""

    name: str
    """The name under which the instance declares it."""
    port: int
    """Where it listens in its container. On the local runtime it gets a free port, as `${port}`."""
    image: str | None = None
    """The image of its container."""
    build: str | None = None
    """A folder with a Dockerfile, instead of an image."""
    arguments: tuple[str, ...] = ()
    """What the container is started with, instead of what the image says: a command line, or a list of its words."""
    command: tuple[str, ...] = ()
    """On the local runtime, instead of an image: a program of this machine, without a shell.

    `${port}` is its port, `${folder}` its own folder."""
    health: SidecarHealth = SidecarHealth()
    """How it is asked whether it can serve: `tcp`, `http`, the path of a URL, `none`, or a command that ends with 0."""
    env: dict[str, str] = Field(default_factory=dict)
    """Its variables; `${port}` and `${folder}` are filled in."""
    volumes: tuple[str, ...] = ()
    """Of its container: `data:/path` is a volume of the stack, `./path:/path:ro` a file or folder of this machine."""
    cpus: float | None = Field(default=None, gt=0)
    """The most CPUs that its container gets."""
    memory: str | None = None
    """The most memory that its container gets; `4g` where nothing is said."""


class Instance(Frozen):
    """One named, configured server. `fields` is what its implementation is given, container facts taken out."""

    name: str
    type: ServerType
    implementation: str
    fields: dict[str, Any]
    references: tuple[ServerRef, ...] = ()
    container: ContainerFacts = ContainerFacts()
    sandbox: Grant | None = None
    """What it may ask the sandbox broker for; without it, nothing."""
    sidecars: tuple[SidecarSpec, ...] = ()
    """Programs beside it, by name: a database, a browser. Only this instance reaches them."""
    directory: Path | None = None  # the implementation's folder; None for an `image` instance
    image_digest: str = ""  # of the packed image that runs instead of the folder
    entrypoint: str = "app.py"
    source_digest: str = ""  # of the files in `directory` that a server runs from
    requirements_digest: str = ""  # "" when the SDK alone is enough
    foreign: bool = False  # written against nemo_gym: started as a script that is given its address
    origin: Location = Location()
    places: dict[str, str] = Field(default_factory=dict, repr=False, exclude=True)  # `a.0.b` of `fields`: "FILE:LINE"


class StackConfig(Frozen):
    """All instances of one `gym up`, in the order they were written, and the settings beside them."""

    instances: tuple[Instance, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)  # every other top-level key, resolved
    files: tuple[str, ...] = ()  # the config files, in the order they were merged
    notices: tuple[str, ...] = ()  # what a user should read: "no policy_base_url: the policy is scripted", ...

    def instance(self, name: str) -> Instance | None:
        return next((one for one in self.instances if one.name == name), None)

"""What the user wrote, merged, resolved and checked: a frozen `Stack` of `Instance`s."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

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


class ContainerFacts(Frozen):
    """The extra fields of an instance that say how its replicas run, not what they do."""

    image: str | None = None
    build: str | None = None  # a folder with a Dockerfile of its own
    replicas: int = Field(default=1, ge=0, le=1000)
    cpus: float | None = Field(default=None, gt=0)
    memory: str | None = None  # "2g"
    env: dict[str, str] = Field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    gpus: int | str | None = None
    launch: str = "auto"  # auto | sdk | script: how the entry point is started
    python_version: str | None = None  # "3.12", "3.13.14", ">=3.12" or the path of an interpreter


class SidecarHealth(Frozen):
    """How a sidecar is asked whether it can serve."""

    kind: Literal["tcp", "http", "command", "none"] = "tcp"
    path: str = "/"  # of an HTTP check
    command: tuple[str, ...] = ()  # exit code 0: healthy


class SidecarSpec(Frozen):
    """One entry of `services:`: a program beside an instance, such as a database. Only the instance reaches it."""

    name: str
    port: int
    image: str | None = None
    build: str | None = None  # a folder with a Dockerfile
    arguments: tuple[str, ...] = ()  # in a container, instead of what the image says
    command: tuple[str, ...] = ()  # on the local runtime, instead of an image
    health: SidecarHealth = SidecarHealth()
    env: dict[str, str] = Field(default_factory=dict)
    volumes: tuple[str, ...] = ()  # "data:/var/lib/postgresql/data", "/srv/site:/site:ro"
    cpus: float | None = Field(default=None, gt=0)
    memory: str | None = None


class Instance(Frozen):
    """One named, configured server. `fields` is what its implementation is given, container facts taken out."""

    name: str
    type: ServerType
    implementation: str
    fields: dict[str, Any]
    references: tuple[ServerRef, ...] = ()
    container: ContainerFacts = ContainerFacts()
    sandbox: Grant | None = None  # what it may ask the broker for; None: nothing, and it does not know the broker
    sidecars: tuple[SidecarSpec, ...] = ()  # what its `services:` lists
    directory: Path | None = None  # the implementation's folder; None for an `image` instance
    image_digest: str = ""  # of the packed image that runs instead of the folder
    entrypoint: str = "app.py"
    source_digest: str = ""  # of the files in `directory` that a server runs from
    requirements_digest: str = ""  # "" when the SDK alone is enough
    foreign: bool = False  # written against nemo_gym: started as a script that is given its address
    origin: Location = Location()


class StackConfig(Frozen):
    """All instances of one `gym up`, in the order they were written, and the settings beside them."""

    instances: tuple[Instance, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)  # every other top-level key, resolved
    files: tuple[str, ...] = ()  # the config files, in the order they were merged
    notices: tuple[str, ...] = ()  # what a user should read: "no policy_base_url: the policy is scripted", ...

    def instance(self, name: str) -> Instance | None:
        return next((one for one in self.instances if one.name == name), None)

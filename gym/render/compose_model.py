"""The part of the Compose format that we write, as frozen models: what is not here cannot be rendered by mistake.

Field order is the order in the file.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
Base = Literal["service", "server"]  # the anchors of the file: every service, and those with our health check
MEMORY_GB: Final = 4  # of a container, for each instance in it
Duration = Annotated[str, StringConstraints(pattern=r"^(\d+(\.\d+)?(ms|s|m|h))+$")]


class Element(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Healthcheck(Element):
    test: tuple[str, ...]
    interval: Duration = "10s"
    timeout: Duration = "5s"
    retries: int = 3
    start_period: Duration = "2m"
    start_interval: Duration = "500ms"


def served(*words: str) -> Healthcheck:
    """`gym-healthy` waits for a server that starts, so it is called early: one call is nearly always enough."""
    return Healthcheck(test=("CMD", "gym-healthy", *words), start_interval="100ms")


class Logging(Element):
    driver: str = "local"
    options: dict[str, str] = Field(default_factory=lambda: {"max-size": "10m", "max-file": "3"})


class Device(Element):
    driver: str = "nvidia"
    count: int | Literal["all"] = "all"
    capabilities: tuple[str, ...] = ("gpu",)


class Reservations(Element):
    devices: tuple[Device, ...] = ()


class Resources(Element):
    reservations: Reservations | None = None


class Deploy(Element):
    replicas: int | None = None
    resources: Resources | None = None


class Mount(Element):
    """`source:target:ro`, in the short form that people write. To be written are the broker's own notes and, by the
    console, who is there."""

    source: str
    target: str
    writable: bool = False

    def __str__(self) -> str:
        return f"{self.source}:{self.target}:{'rw' if self.writable else 'ro'}"


class Port(Element):
    host: str
    published: int
    target: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.published}:{self.target}"


class Condition(Element):
    condition: Literal["service_started", "service_healthy"]


class Joined(Element):
    """How a service is known on one network, beside its name."""

    aliases: tuple[Name, ...] = ()


class ComposeService(Element):
    base: Base | None = Field(default=None, exclude=True)  # whose settings it begins with
    image: str | None = None
    command: tuple[str, ...] | None = None
    environment: dict[str, str] | None = None
    secrets: tuple[Name, ...] | None = None
    volumes: tuple[Mount, ...] | None = None
    ports: tuple[Port, ...] | None = None
    extra_hosts: tuple[str, ...] | None = None
    deploy: Deploy | None = None
    cpus: float | None = None
    mem_limit: str | None = None
    pids_limit: int | None = None
    user: str | None = None
    group_add: tuple[str, ...] | None = None
    depends_on: tuple[Name, ...] | dict[Name, Condition] | None = None
    init: bool | None = None
    restart: str | None = None
    read_only: bool | None = None
    tmpfs: tuple[str, ...] | None = None
    cap_drop: tuple[str, ...] | None = None
    cap_add: tuple[str, ...] | None = None
    security_opt: tuple[str, ...] | None = None
    networks: tuple[Name, ...] | dict[Name, Joined] | None = None
    sysctls: dict[str, int] | None = None
    logging: Logging | None = None
    stop_grace_period: Duration | None = None
    healthcheck: Healthcheck | None = None
    labels: dict[str, str] | None = None


class ComposeNetwork(Element):
    internal: bool | None = None
    labels: dict[str, str] | None = None


class ComposeVolume(Element):
    labels: dict[str, str] | None = None


class Secret(Element):
    file: str


class ComposeFile(Element):
    """What services share is kept once, as a person would write it: `x-labels`, `x-service`, `x-server`."""

    name: Name
    labels: dict[str, str]
    service: ComposeService
    server: ComposeService
    services: dict[Name, ComposeService]
    networks: dict[Name, ComposeNetwork]
    volumes: dict[Name, ComposeVolume] = Field(default_factory=dict)
    secrets: dict[Name, Secret] = Field(default_factory=dict)


def to_tree(element: Element) -> Any:
    """Plain mappings and lists in field order; what was not set is not there."""
    return _plain(element)


def _plain(value: Any) -> Any:
    if isinstance(value, (Mount, Port)):
        return str(value)
    if isinstance(value, Element):
        pairs = ((key, getattr(value, key)) for key, field in type(value).model_fields.items() if not field.exclude)
        return {key: _plain(one) for key, one in pairs if one is not None and one != () and one != {}}
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value

"""What a stack is to be, on disk: commands write it, whoever keeps the stack so reads it, and it outlives them both.

A command that takes replicas out of the routes says so with a beat: when the beat stops, it is as if it were unsaid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gym.plan.model import Plan, RouterPlan, Service
from gym.render.compose import NETWORK, PORT, ROUTER, replica_host, service_name
from gym.render.files import write_atomically
from gym.wire.discovery import Discovery, InstanceView, ReplicaView, replica_route
from gym.wire.rows import ServerType

WANTED: Final = "wanted.json"
WORK: Final = "work.json"
SHARED: Final = 0o644  # read by another user inside a container; the stack's home itself is private
LEASE_SECONDS: Final = 4.0  # a command whose beat is older than this is taken for dead
BEAT_SECONDS: Final = 1.0

M = TypeVar("M", bound=BaseModel)


class Read(BaseModel):
    """Written by one version of gym, read by another while a stack is upgraded: what is new to a reader is passed."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class WantedService(Read):
    name: str
    slug: str
    host: str  # in DNS: all of its replicas; with the project before and a number behind, one of them
    type: ServerType
    implementation: str
    launch: str
    digest: str = ""
    replicas: int = 1
    strict: bool = False


class WantedRouter(Read):
    host: str
    port: int
    needs_token: bool = False


class Wanted(Read):
    stack: str
    project: str
    url: str  # of the router, as callers on this machine see it
    router: WantedRouter
    services: tuple[WantedService, ...] = ()
    down: bool = False  # then nothing is: whatever still runs is on its way out

    @property
    def network(self) -> str:
        return f"{self.project}_{NETWORK}"

    @property
    def router_names(self) -> tuple[str, ...]:
        """By which servers of the stack ask it."""
        return (ROUTER, replica_host(self.project, ROUTER, 1))

    def replica(self, service: WantedService, number: int) -> str:
        return replica_host(self.project, service.slug, number)


class Work(Read):
    """What a command does at this moment."""

    beat: int = 0  # another number each second while it works; 0 when nobody does
    leaving: tuple[str, ...] = ()  # names of containers that get no new requests


class Sight(NamedTuple):
    """One replica that runs, and whether it can serve."""

    host: str
    healthy: bool


def wanted_of(plan: Plan, project: str, url: str) -> Wanted:
    return Wanted(
        stack=plan.stack,
        project=project,
        url=url,
        router=WantedRouter(**plan.router.model_dump()),
        services=tuple(_wanted_service(one, project) for one in plan.services),
    )


def plan_of_wanted(wanted: Wanted) -> Plan:
    """As much of the plan as routes depend on."""
    services = tuple(Service.model_validate(one.model_dump(exclude={"host", "strict"})) for one in wanted.services)
    return Plan(stack=wanted.stack, services=services, router=RouterPlan(**wanted.router.model_dump()))


def discovery_of(
    wanted: Wanted, seen: Mapping[str, Iterable[Sight]], leaving: Collection[str] = frozenset()
) -> Discovery:
    """The document that servers and the router read. `seen` is by instance; what is wanted and not seen is listed as
    not healthy, what is seen and not wanted is not listed."""
    instances = {one.name: _instance(wanted, one, seen.get(one.name, ()), leaving) for one in wanted.services}
    return Discovery(stack=wanted.stack, router=wanted.url, instances=instances)


def number_of(host: str) -> int:
    """The last part of a container's name; what a user named himself is the first of its kind."""
    last = host.rpartition("-")[2]
    return int(last) if last.isascii() and last.isdigit() else 1


def write_wanted(folder: Path, wanted: Wanted) -> bool:
    return _write(folder / WANTED, wanted)


def write_work(folder: Path, work: Work) -> bool:
    return _write(folder / WORK, work)


def read_wanted(folder: Path) -> Wanted | None:
    """None where it was never written, or cannot be read: then whoever asks leaves everything as it is."""
    return _read(Wanted, folder / WANTED)


def read_work(folder: Path) -> Work:
    return _read(Work, folder / WORK) or Work()


class Beat:
    """Is a command at work? Told by changes alone, as seen by the reader's own clock: no two clocks need agree."""

    def __init__(self) -> None:
        self._beat = 0
        self._since = float("-inf")

    def hears(self, work: Work, now: float) -> bool:
        if work.beat != self._beat:
            self._beat, self._since = work.beat, now
        return bool(work.beat) and now - self._since < LEASE_SECONDS


class Leavers:
    """Who is out of the routes. A container that ended has left: the next one of its name is another."""

    def __init__(self) -> None:
        self._asked: frozenset[str] = frozenset()
        self._left: frozenset[str] = frozenset()

    def now(self, work: Work, healthy: Collection[str]) -> frozenset[str]:
        """Of a command that is alive, with who is healthy at this look."""
        asked = frozenset(work.leaving)
        self._left = (self._left & self._asked & asked) | (asked - frozenset(healthy))
        self._asked = asked
        return asked - self._left


def _wanted_service(service: Service, project: str) -> WantedService:
    told = service.model_dump(include={"name", "slug", "type", "implementation", "launch", "digest", "replicas"})
    return WantedService(**told, host=service_name(service.slug, project), strict=service.strict)


def _instance(wanted: Wanted, service: WantedService, seen: Iterable[Sight], leaving: Collection[str]) -> InstanceView:
    there = sorted((one for one in seen if one.host not in leaving), key=lambda one: number_of(one.host))
    there = there[: service.replicas]
    missing = _missing(wanted, service, {*leaving, *(one.host for one in there)}, service.replicas - len(there))
    replicas = tuple(_replica(service, one) for one in sorted((*there, *missing), key=lambda one: number_of(one.host)))
    return InstanceView(
        type=service.type,
        implementation=service.implementation,
        replicas=replicas,
        digest=service.digest,
        state=_state(replicas),
        sdk=service.launch == "sdk",
        strict=service.strict,
    )


def _replica(service: WantedService, one: Sight) -> ReplicaView:
    id = f"{service.slug}-{number_of(one.host)}"
    route = replica_route(service.type, id)
    return ReplicaView(id=id, url=f"http://{one.host}:{PORT}", healthy=one.healthy, route=route)


def _missing(wanted: Wanted, service: WantedService, taken: Collection[str], count: int) -> list[Sight]:
    """Names of those that should be there: some reader may know them by then."""
    names = (wanted.replica(service, number) for number in range(1, service.replicas + 1))
    return [Sight(name, healthy=False) for name in names if name not in taken][:count]


def _state(replicas: tuple[ReplicaView, ...]) -> str:
    healthy = sum(one.healthy for one in replicas)
    if not replicas:
        return "down"
    return "healthy" if healthy == len(replicas) else "degraded" if healthy else "starting"


def _write(path: Path, document: BaseModel) -> bool:
    return write_atomically(path, document.model_dump_json(), mode=SHARED)


def _read(kind: type[M], path: Path) -> M | None:
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None

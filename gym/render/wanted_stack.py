"""What a stack is to be, from its plan; and what it is, from the replicas that were seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from gym.plan.model import Plan, RouterPlan, Service
from gym.plan.shared_processes import container_slug
from gym.wire.discovery import Discovery, InstanceView, ReplicaView, replica_route
from gym.wire.stack_names import PORT, service_name
from gym.wire.wanted import Wanted, WantedRouter, WantedService, Work


class Sight(NamedTuple):
    """One replica that runs, and whether it can serve."""

    host: str
    healthy: bool
    shared_port: int = 0  # its own, in a container with others; 0 in one of its own


def wanted_of(plan: Plan, project: str, url: str) -> Wanted:
    return Wanted(
        stack=plan.stack,
        project=project,
        url=url,
        router=WantedRouter(**plan.router.model_dump()),
        services=tuple(
            wanted_service(one, service_name(one.slug, project), container_slug(one.process)) for one in plan.services
        ),
        sidecars=tuple(one.name for one in plan.sidecars),
    )


def plan_of_wanted(wanted: Wanted) -> Plan:
    """As much of the plan as routes depend on."""
    left_out = {"host", "strict", "image", "shared"}
    services = tuple(Service.model_validate(one.model_dump(exclude=left_out)) for one in wanted.services)
    return Plan(stack=wanted.stack, services=services, router=RouterPlan(**wanted.router.model_dump()))


def discovery_of(
    wanted: Wanted, seen: Mapping[str, Iterable[Sight]], leaving: Collection[str] = frozenset()
) -> Discovery:
    """The document that servers and the router read. `seen` is by instance; what is wanted and not seen is listed as
    not healthy, what is seen and not wanted is not listed."""
    instances = {one.name: _instance(wanted, one, seen.get(one.name, ()), leaving) for one in wanted.services}
    return Discovery(stack=wanted.stack, router=wanted.url, instances=instances)


def sights_of(wanted: Wanted, service: WantedService, *, healthy: bool) -> list[Sight]:
    """Of all its replicas, by the names that they should have."""
    own = [wanted.own_replica(service, number) for number in range(1, service.own_replicas + 1)]
    shared = wanted.shared_replica(service) if service.replicas else None
    return [*([Sight(shared.host, healthy, shared.port)] if shared else ()), *(Sight(host, healthy) for host in own)]


def number_of(host: str) -> int:
    """The last part of a container's name, or of a pod's, which has its Service behind a dot; what a user named himself
    is the first of its kind."""
    last = host.partition(".")[0].rpartition("-")[2]
    return int(last) if last.isascii() and last.isdigit() else 1


class Leavers:
    """The replicas out of the routes. A container that ended has left: the next one of its name is another."""

    def __init__(self) -> None:
        self._asked: frozenset[str] = frozenset()
        self._left: frozenset[str] = frozenset()

    def now(self, work: Work, healthy: Collection[str]) -> frozenset[str]:
        """Of a command that is alive, with the replicas that are healthy at this look."""
        asked = frozenset(work.leaving)
        self._left = (self._left & self._asked & asked) | (asked - frozenset(healthy))
        self._asked = asked
        return asked - self._left


def wanted_service(service: Service, host: str, shared: str = "") -> WantedService:
    fields = service.model_dump(include={"name", "slug", "type", "implementation", "launch", "digest", "replicas"})
    return WantedService(**fields, host=host, strict=service.strict, image=service.image_digest, shared=shared)


def _instance(wanted: Wanted, service: WantedService, seen: Iterable[Sight], leaving: Collection[str]) -> InstanceView:
    number = partial(_number, service)
    there = sorted((one for one in seen if one.host not in leaving), key=number)[: service.replicas]
    missing = _missing(wanted, service, {*leaving, *(one.host for one in there)}, service.replicas - len(there))
    replicas = tuple(_replica(service, one) for one in sorted((*there, *missing), key=number))
    return InstanceView(
        type=service.type,
        implementation=service.implementation,
        replicas=replicas,
        digest=service.digest,
        state=_state(replicas),
        sdk=service.launch == "sdk",
        strict=service.strict,
        image=service.image,
    )


def _replica(service: WantedService, one: Sight) -> ReplicaView:
    id = f"{service.slug}-{_number(service, one)}"
    route = replica_route(service.type, id)
    return ReplicaView(id=id, url=f"http://{one.host}:{one.shared_port or PORT}", healthy=one.healthy, route=route)


def _number(service: WantedService, one: Sight) -> int:
    """The first replica of an instance that shares is the shared one; those in its own containers follow."""
    return 1 if one.shared_port else number_of(one.host) + bool(service.shared)


def _missing(wanted: Wanted, service: WantedService, taken: Collection[str], count: int) -> list[Sight]:
    """Names of those that should be there: some reader may know them by then."""
    return [one for one in sights_of(wanted, service, healthy=False) if one.host not in taken][:count]


def _state(replicas: tuple[ReplicaView, ...]) -> str:
    healthy = sum(one.healthy for one in replicas)
    if not replicas:
        return "down"
    return "healthy" if healthy == len(replicas) else "degraded" if healthy else "starting"

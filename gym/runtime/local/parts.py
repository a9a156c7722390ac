"""The parts of a stack by name: what a plan wants to run, and what a user may mean by a word."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from gym.plan.model import Plan, Service
from gym.plan.shared_processes import digests_of_processes, owners_of, processes_of
from gym.render.launch_document import Address
from gym.runtime.local.child_process import ProcessSpec
from gym.runtime.local.home import Home
from gym.runtime.local.replica_role import ReplicaRole
from gym.runtime.local.shared_spec import shared_spec
from gym.runtime.local.sidecar_processes import order_with_addresses, sidecar_role, sidecar_spec
from gym.runtime.local.specs import (
    CONSOLE,
    ROUTER,
    addresses_for,
    console_member,
    console_spec,
    router_member,
    router_spec,
    sandbox_member,
    sandbox_spec,
    service_member,
    service_spec,
)
from gym.runtime.local.stack_order import StackOrder
from gym.runtime.unknown_name import no_replica, unknown
from gym.wire.stack_names import SANDBOX


def all_ids(plan: Plan) -> list[str]:
    """Of processes: one that several instances share has a name of its own."""
    own = [CONSOLE, ROUTER, SANDBOX] if plan.sandbox else [CONSOLE, ROUTER]
    beside = (one.slug for one in plan.sidecars)
    return [*processes_of(plan), *beside, *own]


class OrderedParts:
    """What an order asks to run, by the name of its process. `address` says where a part listens."""

    def __init__(self, order: StackOrder, home: Home, address: Callable[[str], Address]) -> None:
        self.order, self.plan = order, order.plan
        self._home, self._address = home, address
        self.processes = processes_of(order.plan)
        self._owners = owners_of(order.plan)
        self._sidecars = {one.slug: one for one in order.plan.sidecars}

    @cached_property
    def ids(self) -> tuple[str, ...]:
        return tuple(all_ids(self.plan))

    @cached_property
    def digests(self) -> dict[str, str]:
        """What each process is to be made from; what every stack has is not compared."""
        found = digests_of_processes(self.plan) | {one.slug: one.digest for one in self.plan.sidecars}
        return found | ({SANDBOX: self.plan.sandbox.digest} if self.plan.sandbox else {})

    def own(self) -> dict[str, tuple[ProcessSpec, ReplicaRole]]:
        return own_parts(self.order, self._home)

    def owner(self, process: str) -> Service | None:
        """The instance of a process that no others share."""
        return self._owners.get(process)

    def roles(self, process: str) -> list[ReplicaRole]:
        """What lives in it."""
        if replicas := self.processes.get(process):
            return [service_member(self._owners[one], one) for one in replicas]
        if sidecar := self._sidecars.get(process):
            return [sidecar_role(sidecar)]
        return [self.own()[process][1]]

    def spec(self, process: str) -> ProcessSpec:
        if replicas := self.processes.get(process):
            specs = [self._of_replica(replica) for replica in replicas]
            shared = process not in replicas
            return shared_spec(process, specs, self._home, self.digests[process]) if shared else specs[0]
        if sidecar := self._sidecars.get(process):
            return sidecar_spec(self.order, self._home, sidecar, int(self._address(process)[1]))
        return self.own()[process][0]

    def stale(self, made_from: Callable[[str], str]) -> list[Sequence[str]]:
        """The processes of each instance, where one was made from something else than what is wanted."""
        groups = choose(self.plan, [one.name for one in self.plan.services])
        return [group for group in groups if any(made_from(name) != self.digests[name] for name in group)]

    def _of_replica(self, replica: str) -> ProcessSpec:
        service, address = self._owners[replica], self._address
        replicas = {one.name: [address(name) for name in one.replica_ids()] for one in self.plan.services}
        addresses = addresses_for(self.order, service, address(replica), replicas, address(ROUTER))
        if service.sandbox is not None:
            addresses[SANDBOX] = address(SANDBOX)
        order = order_with_addresses(self.order, {slug: int(address(slug)[1]) for slug in self._sidecars})
        return service_spec(order, self._home, order.plan.service(service.name) or service, replica, addresses)


def own_parts(order: StackOrder, home: Home) -> dict[str, tuple[ProcessSpec, ReplicaRole]]:
    """What every stack has beside the servers that were asked for."""
    own = {
        CONSOLE: (console_spec(order, home), console_member()),
        ROUTER: (router_spec(order, home), router_member()),
    }
    if order.plan.sandbox is not None:
        own[SANDBOX] = (sandbox_spec(order, home), sandbox_member(order.plan))
    return own


def choose(plan: Plan, names: Sequence[str]) -> list[Sequence[str]]:
    """The processes of each that was named, as an instance or a replica; all of them when none was. Each once."""
    of_replica = {replica: process for process, replicas in processes_of(plan).items() for replica in replicas}
    groups: dict[str, Sequence[str]] = {
        one.name: tuple(of_replica[replica] for replica in one.replica_ids()) for one in plan.services
    }
    groups |= {one.name: (one.slug,) for one in plan.sidecars}
    groups |= {ROUTER: (ROUTER,), CONSOLE: (CONSOLE,)} | ({SANDBOX: (SANDBOX,)} if plan.sandbox else {})
    singles = {name: (name,) for name in all_ids(plan)} | {name: (of_replica[name],) for name in of_replica}
    for name in names:
        if name not in groups and name not in singles:
            raise unknown(name, groups, singles)
        if name not in singles and not groups[name]:
            raise no_replica(name)
    chosen = [groups.get(name) or singles[name] for name in names] if names else list(groups.values())
    return _each_once(chosen)


def _each_once(groups: Iterable[Sequence[str]]) -> list[Sequence[str]]:
    """Instances that share a process would else have it restarted once for each of them."""
    seen: set[str] = set()
    found = []
    for group in groups:
        found.append(tuple(name for name in group if name not in seen))
        seen.update(group)
    return [group for group in found if group]

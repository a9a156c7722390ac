"""One node's part of a stack: its processes, started, restarted and ended as the wanted job says."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gym.errors import UserError
from gym.plan.model import Plan, Service
from gym.render.launch_document import Address
from gym.render.slurm_placement import FIRST, gpus_of
from gym.runtime.local.child_process import ProcessSpec, Reaper
from gym.runtime.local.fd_store import FdStore
from gym.runtime.local.home import Home
from gym.runtime.local.listeners import LOOPBACK, listen_at, listen_for_router, listen_on_loopback, reserve_port, url_of
from gym.runtime.local.members import Members
from gym.runtime.local.parts import OrderedParts, all_ids, own_parts
from gym.runtime.local.replica_process import ProcessContext
from gym.runtime.local.replica_role import ReplicaRole
from gym.runtime.local.sidecar_folders import make_folders
from gym.runtime.local.sidecar_processes import sidecar_role
from gym.runtime.local.specs import CONSOLE, ROUTER, binds_itself, service_member
from gym.runtime.local.stack_order import StackOrder
from gym.runtime.slurm.peer_filter import LOOPBACK_NET, allow_peers
from gym.runtime.slurm.shared_folder import JobRun, NodeReport, WantedJob
from gym.runtime.status import ReplicaStatus
from gym.wire.stack_names import SANDBOX

GPUS = "CUDA_VISIBLE_DEVICES"

log = logging.getLogger("gym.node")


@dataclass(frozen=True)
class NodeSeat:
    """Which node of which run of a job this is."""

    run: JobRun
    rank: int
    name: str
    peers: tuple[str, ...]  # the addresses of all nodes, its own among them
    gpus: tuple[str, ...] = ()  # as Slurm has given them

    @property
    def address(self) -> str:
        return self.peers[self.rank]

    @property
    def alone(self) -> bool:
        return len(self.peers) == 1


@dataclass(frozen=True)
class OtherNodes:
    """What the other nodes have said last."""

    reports: Mapping[int, NodeReport] = field(default_factory=dict)

    def address(self, name: str) -> Address | None:
        return next((one.addresses[name] for one in self.reports.values() if name in one.addresses), None)

    def is_current(self, name: str, version: str) -> bool:
        """Healthy, and made from what is wanted now."""
        return any(
            one.versions.get(name) == version and any(s.replica == name and s.state == "healthy" for s in one.replicas)
            for one in self.reports.values()
        )


class NodeStack:
    """`group` owns the tasks of the processes; `wake` is called for each that changed. `ports` are those of the run
    before: callers that wait for the stack look there, so they are taken again where they are free."""

    def __init__(
        self,
        home: Home,
        seat: NodeSeat,
        reaper: Reaper,
        group: asyncio.TaskGroup,
        wake: Callable[[], None],
        ports: Mapping[str, int],
    ) -> None:
        self._home, self.seat, self._ports = home, seat, ports
        context = ProcessContext(reaper, lambda *_: None, lambda _: None, wake)
        self._members = Members(context, group, FdStore(), wake)
        self._versions: dict[str, str] = {}
        self._gpus: dict[str, tuple[str, ...]] = {}
        self._names: set[str] = set()  # of all that ever had a socket here

    def step(self, wanted: WantedJob, others: OtherNodes) -> bool:
        """What can be done at once towards what is wanted; waits for nothing. True where a process got a new spec."""
        mine = [name for name in all_ids(wanted.order.plan) if wanted.placement[name] == self.seat.rank]
        for name in mine:
            if not self._members.has_socket(name):
                self._bind(wanted.order, name)
        if any(self._address(name, others) is None for name in all_ids(wanted.order.plan)):
            return False  # another node has not said yet where its servers listen
        before = dict(self._versions)
        self._start(wanted, mine, others)
        self._roll(wanted, mine, others)
        return self._versions != before

    async def leave(self, wanted: WantedJob) -> None:
        """Of what is no longer wanted here, once no document names it."""
        mine = {name for name, rank in wanted.placement.items() if rank == self.seat.rank}
        surplus = set(self._members) - mine - self._members.leaving
        await self._members.leave(surplus)
        for name in surplus:
            self._versions.pop(name, None)
            self._gpus.pop(name, None)

    async def stop(self) -> None:
        """Servers drain and end; what they may still ask ends after them."""
        last = {name for name in self._members if name == SANDBOX or self._members[name].member.binds}
        await self._members.left()
        for names in (set(self._members) - last, last & set(self._members)):
            await self._members.end(names)

    def report(self, beat: int, generation: int) -> NodeReport:
        processes = [self._members[name] for name in self._members if name not in self._members.leaving]
        return NodeReport(
            run=self.seat.run,
            node=self.seat.name,
            address=self.seat.address,
            beat=beat,
            generation=generation,
            replicas=tuple(self._status(one.status()) for one in processes),
            addresses={name: self._own_address(name) for name in self._names if self._members.has_socket(name)},
            versions=dict(self._versions),
            early_exits={one.spec.id: one.early_exits for one in processes if one.early_exits},
        )

    def logs(self) -> Iterable[str]:
        return list(self._members)

    def specs(self) -> dict[str, object]:
        found = {name: self._members[name].spec for name in self._members}
        return {
            name: {"replica": one.id, "argv": one.argv, "env": dict(one.env), "cwd": str(one.cwd)}
            for name, one in found.items()
        }

    # Sockets

    def _bind(self, order: StackOrder, name: str) -> None:
        plan = order.plan
        owner = next((one for one in plan.services if name in one.replica_ids()), None)
        host = LOOPBACK if self.seat.alone else self.seat.address
        if name == ROUTER:
            wanted = plan.router.port
            listener = self._as_before(name, lambda port: listen_for_router(plan.router.host, wanted or port))
        elif name == CONSOLE:
            listener = listen_on_loopback()
        elif owner is None and name != SANDBOX:
            listener = reserve_port()  # a sidecar: its instance is here
        else:
            bind = reserve_port if owner and binds_itself(owner) else listen_at
            listener = self._as_before(name, lambda port: bind(host, port))
            if not self.seat.alone:
                allow_peers(listener, (LOOPBACK_NET, *self.seat.peers))
        self._members.hold(name, listener)
        self._names.add(name)

    def _as_before(self, name: str, bind: Callable[[int], socket.socket]) -> socket.socket:
        if before := self._ports.get(name):
            with contextlib.suppress(OSError, UserError):
                return bind(before)
        return bind(0)

    def _own_address(self, name: str) -> Address:
        host, port = self._members.address(name)
        return (self.seat.address if name == ROUTER else host), port

    def _address(self, name: str, others: OtherNodes) -> Address | None:
        return self._own_address(name) if self._members.has_socket(name) else others.address(name)

    def _status(self, found: ReplicaStatus) -> ReplicaStatus:
        if found.replica != ROUTER:
            return found
        host, port = self._own_address(ROUTER)
        return replace(found, url=url_of(host, int(port)))

    # Processes

    def _start(self, wanted: WantedJob, mine: list[str], others: OtherNodes) -> None:
        order, plan = wanted.order, wanted.order.plan
        for name, (spec, member) in own_parts(order, self._home).items():
            if name in mine:
                self._ensure(wanted, member, spec)
        make_folders(self._home, plan)
        for sidecar in (one for one in plan.sidecars if one.slug in mine):
            self._ensure(wanted, sidecar_role(sidecar), self._spec(wanted, sidecar.slug, others))
        first = [*([SANDBOX] if plan.sandbox else []), *(one.slug for one in plan.sidecars if one.slug in mine)]
        if not all(self._is_current(name, wanted, others) for name in first):
            return  # servers may ask them at their start
        for service in plan.services:
            for replica in service.replica_ids():
                if replica in mine and replica not in self._members:
                    spec = self._spec(wanted, replica, others)
                    self._ensure(wanted, service_member(service, replica), spec, service)

    def _ensure(
        self, wanted: WantedJob, member: ReplicaRole, spec: ProcessSpec, service: Service | None = None
    ) -> None:
        if spec.id not in self._members:
            self._members.ensure(member, spec, service)
            self._versions[spec.id] = wanted.version(spec.id)

    def _roll(self, wanted: WantedJob, mine: list[str], others: OtherNodes) -> None:
        """One replica of an instance at a time, wherever the others run: it waits for those of lower numbers."""
        for name in mine:
            if name not in self._members or self._versions[name] == wanted.version(name):
                continue
            group = _group_of(wanted.order.plan, name)
            if all(self._is_current(one, wanted, others) for one in group[: group.index(name)]):
                log.info("%s is not what is wanted: replaced", name)
                self._members[name].restart(self._spec(wanted, name, others))
                self._versions[name] = wanted.version(name)

    def _is_current(self, name: str, wanted: WantedJob, others: OtherNodes) -> bool:
        if name not in self._members:
            return others.is_current(name, wanted.version(name))
        return self._versions[name] == wanted.version(name) and self._members[name].state == "healthy"

    def _spec(self, wanted: WantedJob, name: str, others: OtherNodes) -> ProcessSpec:
        parts = OrderedParts(wanted.order, self._home, lambda one: self._address(one, others) or (LOOPBACK, 0))
        spec, service = parts.spec(name), parts.owner(name)
        if service is None:
            return spec
        gpus = self._take_gpus(name, gpus_of(service))
        return replace(spec, env={**spec.env, GPUS: ",".join(gpus)}) if gpus else spec

    def _take_gpus(self, name: str, count: int) -> tuple[str, ...]:
        """No two replicas of a node get the same one."""
        if name not in self._gpus:
            taken = {one for held in self._gpus.values() for one in held}
            self._gpus[name] = tuple(one for one in self.seat.gpus if one not in taken)[:count]
        return self._gpus[name]


def _group_of(plan: Plan, name: str) -> Sequence[str]:
    return next((one.replica_ids() for one in plan.services if name in one.replica_ids()), (name,))


def leads(seat: NodeSeat) -> bool:
    """It holds the router, and says how the whole stack is."""
    return seat.rank == FIRST

"""The processes of a stack by name, each with a listening socket that is there before it."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gym.plan.model import Observed, ObservedService, Plan, SandboxPlan, Service, Sidecar
from gym.plan.shared_processes import processes_of, shared_processes
from gym.render.launch_document import Address
from gym.runtime.local.child_process import Adopted, ProcessSpec
from gym.runtime.local.fd_store import FdStore
from gym.runtime.local.listeners import address_of, listen_on_loopback, reserve_port, url_of
from gym.runtime.local.replica_process import ProcessContext, ReplicaProcess
from gym.runtime.local.replica_role import ReplicaRole, Seat
from gym.runtime.local.specs import CONSOLE, binds_itself
from gym.runtime.status import ReplicaStatus
from gym.wire.stack_names import SANDBOX

LEAVING_SECONDS = 0.5  # between leaving the discovery document and SIGTERM: callers re-read it meanwhile


class Members:
    """`group` owns the tasks of the processes; `on_change` is called for each that came or went."""

    def __init__(
        self, context: ProcessContext, group: asyncio.TaskGroup, store: FdStore, on_change: Callable[[], None]
    ) -> None:
        self._context = context
        self._group = group
        self._store = store
        self._on_change = on_change
        self._processes: dict[str, ReplicaProcess] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._sockets: dict[str, socket.socket] = {}
        self.leaving: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self._processes

    def __getitem__(self, name: str) -> ReplicaProcess:
        return self._processes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._processes)

    def of(self, names: Iterable[str]) -> list[ReplicaProcess]:
        """Those of them that are there."""
        return [self._processes[name] for name in names if name in self._processes]

    def statuses(self, names: Iterable[str]) -> list[ReplicaStatus]:
        """Of all that live in these processes, by instance where they share one."""
        return [status for process in self.of(names) for status in process.statuses()]

    # Sockets.

    def adopt_sockets(self, sockets: Mapping[str, socket.socket]) -> None:
        self._sockets.update(sockets)

    def has_socket(self, name: str) -> bool:
        return name in self._sockets

    def bind(self, plan: Plan) -> None:
        """A socket for each part that has none; the router's is bound before anything else."""
        for name in (CONSOLE, *([SANDBOX] if plan.sandbox else [])):
            if name not in self._sockets:
                self.hold(name, listen_on_loopback())
        for sidecar in plan.sidecars:
            if sidecar.slug not in self._sockets:
                self.hold(sidecar.slug, reserve_port())
        for service in plan.services:
            bind = reserve_port if binds_itself(service) else listen_on_loopback
            for replica in service.replica_ids():
                if replica not in self._sockets:
                    self.hold(replica, bind())

    def hold(self, name: str, listener: socket.socket) -> None:
        self._sockets[name] = listener
        self._store.keep_socket(name, listener)

    def address(self, name: str) -> Address:
        process = self._processes.get(name)
        host, port = process.address if process else address_of(self._sockets[name])
        return host, port

    def url(self, name: str) -> str:
        """Empty for what is not there."""
        if name not in self._processes and name not in self._sockets:
            return ""
        host, port = self.address(name)
        return url_of(host, int(port))

    # Processes.

    def ensure(
        self,
        member: ReplicaRole,
        spec: ProcessSpec,
        service: Service | None = None,
        found: Adopted | None = None,
        others: Iterable[ReplicaRole] = (),
    ) -> None:
        """Started if it is not there, or `found` running. `others` live in the same process."""
        if spec.id in self._processes:
            return
        hand_over = not member.binds and (service is None or not binds_itself(service))
        listener = self._sockets[member.replica]
        process = ReplicaProcess(
            member, spec, listener, self._context, hand_over=hand_over, found=found, others=self._seats(others)
        )
        self._processes[spec.id] = process
        self._tasks[spec.id] = self._group.create_task(process.run(), name=spec.id)
        self._tasks[spec.id].add_done_callback(functools.partial(self._forget, process))

    def restart(self, spec: ProcessSpec, roles: Sequence[ReplicaRole]) -> None:
        """With these in it; the sockets of those that are in no process any more are closed."""
        process = self._processes[spec.id]
        before = process.seats
        if [one.role for one in before] != list(roles):
            process.reseat(self._seats(roles))
        process.restart(spec)
        for seat in before:
            self._release(seat)

    async def leave(self, names: set[str]) -> list[asyncio.Task[None]]:
        """Take these out of what is published, then let them drain; the tasks end when they have."""
        self.leaving |= names
        tasks = [self._tasks[name] for name in names]
        if names:
            self._on_change()
            await asyncio.sleep(LEAVING_SECONDS)
        for name in names:
            self._processes[name].retire()
        return tasks

    async def end(self, names: set[str]) -> None:
        """At once, and without leaving first: for a stack that stops."""
        tasks = [self._tasks[name] for name in names]
        for name in names:
            self._processes[name].retire()
        await ended(tasks)

    async def left(self) -> None:
        """Those that were leaving are gone."""
        await ended([self._tasks[name] for name in self.leaving])

    def retry_now(self) -> None:
        """Those that wait for a retry are retried now."""
        for process in self._processes.values():
            process.retry_now()

    def _forget(self, process: ReplicaProcess, _: asyncio.Task[None]) -> None:
        name = process.spec.id
        if self._processes.get(name) is process:
            del self._processes[name], self._tasks[name]
        for seat in process.seats:
            self._release(seat)
        self.leaving.discard(name)
        self._on_change()

    def _seats(self, roles: Iterable[ReplicaRole]) -> tuple[Seat, ...]:
        listeners = ((one, self._sockets[one.replica]) for one in roles)
        return tuple(Seat(one, listener, address_of(listener)) for one, listener in listeners)

    def _release(self, seat: Seat) -> None:
        """Unless another process serves on that socket by now."""
        if any(one.listener is seat.listener for process in self._processes.values() for one in process.seats):
            return
        seat.listener.close()
        name = seat.role.replica
        if self._sockets.get(name) is seat.listener:
            del self._sockets[name]
            self._store.drop_socket(name)


def observe(plan: Plan, members: Members) -> Observed:
    """What processes were made from, not what was asked for: a change may have come to half of them."""
    process_of = {replica: process for process, replicas in processes_of(plan).items() for replica in replicas}
    shared = {process: frozenset(one.name for one in each) for process, each in shared_processes(plan).items()}
    found = {}
    for one in plan.services:
        observed = _observed(one, [(replica, process_of[replica]) for replica in one.replica_ids()], members)
        beside = shared.get(one.process, frozenset()) - {one.name}
        found[one.name] = observed.model_copy(update={"beside": beside})
    found |= {one.name: _observed(one, [(one.slug, one.slug)], members) for one in plan.sidecars}
    if plan.sandbox is not None:
        found[SANDBOX] = _observed(plan.sandbox, [(SANDBOX, SANDBOX)], members)
    return Observed(services=found)


def _observed(
    wanted: Service | SandboxPlan | Sidecar, names: Sequence[tuple[str, str]], members: Members
) -> ObservedService:
    """`names`: of its replicas, and of the process that each lives in."""
    specs = [(replica, members[process].spec) for replica, process in names if process in members]
    digests = {spec.digests.get(replica, "") if spec.digests else spec.digest for replica, spec in specs}
    digest = digests.pop() if len(digests) == 1 else ""  # mixed: replace
    parts = wanted.parts if digest == wanted.digest else {}
    return ObservedService(digest=digest, replicas=len(names), parts=parts)


async def ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    if tasks:
        await asyncio.wait(tasks)

"""A running stack: its processes, and the changes a user may ask for. All in one event loop, one change at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gym.errors import GymError, UserError
from gym.plan import diff
from gym.plan.model import Observed, Sidecar
from gym.runtime.lateness import unhealthy_before
from gym.runtime.local.child_process import Adopted, ProcessSpec, Reaper
from gym.runtime.local.fd_store import FdStore
from gym.runtime.local.fork_parents import ForkParents
from gym.runtime.local.home import Home, folder_id, unwritable
from gym.runtime.local.listeners import listen_for_router
from gym.runtime.local.members import Members, ended, observe
from gym.runtime.local.parts import OrderedParts, all_ids, choose
from gym.runtime.local.pid_file import PidFile
from gym.runtime.local.publish import Publisher
from gym.runtime.local.remains import Remains
from gym.runtime.local.replica_process import ProcessContext
from gym.runtime.local.sidecar_folders import make_folders
from gym.runtime.local.specs import CONSOLE, ROUTER, console_spec
from gym.runtime.local.stack_changes import StackChanges
from gym.runtime.local.stack_order import StackOrder
from gym.runtime.local.start_waits import StartDeadline, deadline_for, settles, wait_healthy, wait_routed
from gym.runtime.sandbox_access import write_config
from gym.runtime.sandbox_leftovers import HAND_OVER, TOKENS, config_path
from gym.runtime.status import StackStatus
from gym.runtime.unknown_name import unknown
from gym.wire.stack_names import SANDBOX

RECONCILE_EVERY = 0.5

log = logging.getLogger("gym.supervisor")


class LocalStack:
    """`group` owns the tasks of the processes."""

    def __init__(
        self, home: Home, pid_file: PidFile, reaper: Reaper, group: asyncio.TaskGroup, store: FdStore | None = None
    ) -> None:
        self.order: StackOrder | None = None
        self.changes = StackChanges(self._publish)
        self._home = home
        self._pid_file = pid_file
        self._store = store or FdStore()
        self._forks = ForkParents(reaper, home.path)
        context = ProcessContext(
            reaper,
            pid_file.add,
            pid_file.drop,
            self.changes.note,
            self._store.drop_socket,
            tied=not self._store.is_kept,
            forks=self._forks,
        )
        self._members = Members(context, group, self._store, self.changes.note)
        self._publisher = Publisher(home)
        self._changing = asyncio.Lock()  # a change that was asked for, or one step of the reconciler
        self._ending = False
        self._folder = folder_id(home.path)

    def status(self) -> StackStatus:
        plan = self.order.plan if self.order else None
        return StackStatus(
            stack=plan.stack if plan else "",
            runtime="local",
            router=self._members.url(ROUTER),
            replicas=tuple(self._members.statuses(all_ids(plan)) if plan else ()),
        )

    def observed(self) -> Observed:
        """What processes were made from, not what was asked for: a change may have come to half of them."""
        return observe(self.order.plan, self._members) if self.order else Observed()

    async def reconcile_for_ever(self) -> None:
        """What is wanted outlives the command that asked for it, and the supervisor that it asked."""
        while True:
            await asyncio.sleep(RECONCILE_EVERY)
            self._store.beat()
            if self.order is None or self._ending or folder_id(self._home.path) != self._folder:
                continue
            self._repair()
            if self._changing.locked():
                continue
            try:
                async with self._changing:
                    await self._reconcile(self.order)
            except (OSError, GymError) as error:  # no descriptors, no space: retried
                log.error("what is wanted could not be made so: %s", error)

    async def resume(self, order: StackOrder, sockets: Mapping[str, socket.socket], left: Remains) -> None:
        """Carry on for a supervisor that was killed: what lives is taken over as it is, the rest is started."""
        async with self._changing:
            self._members.adopt_sockets(sockets)
            await self._bind_router(order)
            self.order = order
            self._store.keep_order(order)
            self._publisher.resume(left.generation)
            self._write_plan(order)
            self._members.bind(order.plan)
            parts = self._parts(order)
            processes = parts.processes.items()
            listening = {name: replicas for name, replicas in processes if sockets.keys() >= set(replicas)}
            listening |= {name: (name,) for name in sockets}
            for name, adopted, digest in left.adoptable(self._home, listening):
                self._adopt(parts, name, adopted, digest)
            await asyncio.to_thread(left.end_others, self._home, frozenset(self._members), order.plan.drain_seconds)
            self._start_missing(order)
            self.changes.note()

    async def apply(self, order: StackOrder, timeout: float | None, not_awaited: Collection[str] = ()) -> None:
        """Make the plan real, replacing only what differs; returns when all of it is healthy and routed, but for the
        processes `not_awaited`."""
        async with self._changing:
            await self._apply(order, deadline_for(order.plan, timeout), not_awaited)

    async def _apply(self, order: StackOrder, deadline: StartDeadline, not_awaited: Collection[str]) -> None:
        await self._members.left()  # of a change that failed
        changes = {one.service: one.action for one in diff(order.plan, self.observed())}
        await self._bind_router(order)
        former, self.order = self.order, order
        self._store.keep_order(order)  # from here on the change is carried out, also where this process is killed
        self._write_plan(order)
        self._members.bind(order.plan)
        surplus = await self._members.leave(set(self._members) - set(all_ids(order.plan)))
        self._start_broker(order, former, changed=changes.get(SANDBOX) == "replace")
        await self._settle([SANDBOX] if order.plan.sandbox else [], deadline, not_awaited)
        self._start_sidecars(order, [one for one in order.plan.sidecars if changes[one.name] == "replace"])
        await self._settle([one.slug for one in order.plan.sidecars], deadline, not_awaited)
        self._start_missing(order)
        if former is not None and former.token != order.token:  # which only the console knows, from its start
            self._members[CONSOLE].restart(console_spec(order, self._home))
        self.changes.note()
        stale = self._parts(order).stale(lambda name: self._members[name].spec.digest)
        await self._roll(stale, deadline)
        await self._wait_healthy([name for name in all_ids(order.plan) if name not in not_awaited], deadline)
        await self._wait_routed(order)
        await ended(surplus)

    async def restart(self, names: Sequence[str], timeout: float | None) -> None:
        """Each instance drains and restarts on its own socket, one replica of it at a time."""
        async with self._changing:
            order = self._running()
            deadline = deadline_for(order.plan, timeout)
            groups = choose(order.plan, names)
            await self._roll(groups, deadline)
            await self._wait_healthy([name for group in groups for name in group], deadline)
            await self._wait_routed(order)

    async def scale(self, replicas: Mapping[str, int], timeout: float | None) -> None:
        order = self._running()
        for name in replicas:
            if order.plan.service(name) is None:
                raise unknown(name, [one.name for one in order.plan.services])
        services = tuple(
            one.model_copy(update={"replicas": replicas.get(one.name, one.replicas)}) for one in order.plan.services
        )
        plan = order.plan.model_copy(update={"services": services})
        await self.apply(order.model_copy(update={"plan": plan}), timeout, self._find_not_awaited(tuple(replicas)))

    def _find_not_awaited(self, names: Sequence[str]) -> frozenset[str]:
        """See `unhealthy_before`. `names`: the instances that are asked for."""
        asked = {process for group in choose(self._running().plan, names) for process in group}
        processes = {one.spec.id: one for one in self._members.of(self._members)}
        states = {id: one.state for id, one in processes.items()}
        return unhealthy_before(states, {id: one.early_exits for id, one in processes.items()}, asked)

    def spec_of(self, name: str) -> ProcessSpec:
        """Of the first replica that was named, or of the process itself."""
        return self._members[choose(self._running().plan, (name,))[0][0]].spec

    async def stop(self) -> None:
        """Drain and end everything at once; only the broker and sidecars wait, for servers that still use them."""
        self._ending = True
        last = {SANDBOX, *(one.slug for one in self.order.plan.sidecars)} if self.order else {SANDBOX}
        for names in (set(self._members) - last, last & set(self._members)):
            await self._members.end(names)
        await self._forks.close()
        self.order = None
        self._publisher.withdraw()

    # The parts of `apply`, in its order

    async def _bind_router(self, order: StackOrder) -> None:
        """Before anything else: a port in use must leave a running stack as it was."""
        wanted = order.plan.router
        former = self.order.plan.router if self.order else None
        if former == wanted or (former is None and self._members.has_socket(ROUTER)):
            return
        old = {ROUTER} & set(self._members)
        if former is not None and former.port == wanted.port:  # another host: the old socket is in the way
            await ended(await self._members.leave(old))
            old = set()
        listener = listen_for_router(wanted.host, wanted.port)
        await ended(await self._members.leave(old))
        self._members.hold(ROUTER, listener)

    def _write_plan(self, order: StackOrder) -> None:
        plan = order.plan
        try:
            self._pid_file.set_stack(plan.stack, self._members.url(ROUTER), order.pythons.values())
            self._publisher.write_plan(plan)
            if order.tokens is not None:
                write_config(self._home.path, plan, order.tokens, mode=0o600)
            self._publisher.keep(self._home.session, self._home.path / TOKENS, config_path(self._home.path))
        except OSError as error:
            raise unwritable(self._home.path, error) from error

    def _start_broker(self, order: StackOrder, former: StackOrder | None, *, changed: bool) -> None:
        """Before the servers that will ask it for sandboxes."""
        if order.plan.sandbox is None:
            return
        spec, member = self._parts(order).own()[SANDBOX]
        self._members.ensure(member, spec)
        if changed:
            earlier = former.plan.sandbox if former else None
            if earlier is not None and earlier.provider == order.plan.sandbox.provider:
                self._hand_over_sandboxes()
            self._members[SANDBOX].restart(spec)

    def _start_sidecars(self, order: StackOrder, replaced: Sequence[Sidecar]) -> None:
        """Before the servers, which may ask them at their start; at the same port where they were before."""
        parts = self._parts(order)
        self._ensure_sidecars(parts)
        for one in replaced:
            self._members[one.slug].restart(parts.spec(one.slug))

    async def _settle(self, names: Sequence[str], deadline: StartDeadline, not_awaited: Collection[str]) -> None:
        for name in names:
            if name not in not_awaited:
                await settles(self._members[name], deadline, self.changes.next)

    def _ensure_sidecars(self, parts: OrderedParts) -> None:
        make_folders(self._home, parts.plan)
        for one in parts.plan.sidecars:
            self._ensure(parts, one.slug)

    def _hand_over_sandboxes(self) -> None:
        """The broker ends, another one follows: its sandboxes stay for that one."""
        process = self._members[SANDBOX]
        if process.state == "healthy" and process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, getattr(signal, HAND_OVER))

    # What happens without being asked for

    async def _reconcile(self, order: StackOrder) -> None:
        """One step from what is observed to what is wanted, for a change that failed or was cut off half way."""
        parts = self._parts(order)
        wanted = parts.ids
        await self._members.leave(set(self._members) - set(wanted) - self._members.leaving)
        if self._ending:
            return
        if set(wanted) - set(self._members):
            self._members.bind(order.plan)
            self._start_missing(order, retry=False)
        digests = parts.digests
        for group in choose(order.plan, ()):
            processes = self._members.of(group)
            stale = [one for one in processes if one.spec.digest != digests.get(one.spec.id, one.spec.digest)]
            if stale and all(one.state == "healthy" for one in processes if one not in stale):
                log.info("%s is not what the plan wants: replaced", stale[0].spec.id)
                self._replace(parts, stale[0].spec.id)

    def _repair(self) -> None:
        try:
            repaired = [*self._publisher.repair(), *([self._home.state] if self._pid_file.repair() else [])]
        except OSError as error:
            log.error("the stack's files could not be looked after: %s", error)
            return
        if repaired:
            log.warning("damaged or gone, rewritten: %s", ", ".join(str(one) for one in repaired))
        if self._publisher.has_other_folder() and ROUTER in self._members:
            log.warning("the router watches a folder that is gone: it restarts")
            self._members[ROUTER].restart()

    def _adopt(self, parts: OrderedParts, name: str, found: Adopted, digest: str) -> None:
        """What it was made from stays known: where that is not what is wanted, it is replaced in its turn."""
        if name not in parts.ids:
            return
        spec = parts.spec(name)
        if spec.digest != digest:
            spec = replace(spec, digest=digest, digests=dict.fromkeys(spec.digests, ""))
        self._pid_file.add(name, found.identity, digest)
        self._ensure(parts, name, spec, found)

    def _ensure(
        self, parts: OrderedParts, name: str, spec: ProcessSpec | None = None, found: Adopted | None = None
    ) -> None:
        if name not in self._members:
            role, *others = parts.roles(name)
            self._members.ensure(role, spec or parts.spec(name), parts.owner(role.replica), found, others)

    def _start_missing(self, order: StackOrder, *, retry: bool = True) -> None:
        """Those that wait for their next try are tried now, because a command asked."""
        if retry:
            self._members.retry_now()
        parts = self._parts(order)
        for spec, member in parts.own().values():
            self._members.ensure(member, spec)
        self._ensure_sidecars(parts)
        for process in parts.processes:
            self._ensure(parts, process)

    async def _roll(self, groups: Sequence[Sequence[str]], deadline: StartDeadline) -> None:
        """One replica of each instance at a time, all instances side by side; where one does not come up, the others of
        its instance stay as they were, and no other instance waits for it."""
        parts = self._parts(self._running())
        async with asyncio.TaskGroup() as rolling:
            for group in groups:
                rolling.create_task(self._roll_group(parts, group, deadline))

    async def _roll_group(self, parts: OrderedParts, group: Sequence[str], deadline: StartDeadline) -> None:
        for name in group:
            self._replace(parts, name)
            if not await settles(self._members[name], deadline, self.changes.next):
                return

    def _replace(self, parts: OrderedParts, name: str) -> None:
        if name == SANDBOX:
            self._hand_over_sandboxes()
        self._members.restart(parts.spec(name), parts.roles(name))

    async def _wait_healthy(self, names: Sequence[str], deadline: StartDeadline) -> None:
        order = self._running()
        wanted = [self._members[name] for name in names]
        everyone = self._members.of(all_ids(order.plan))
        await wait_healthy(wanted, everyone, deadline, self.changes.next, order.plan.stack)

    async def _wait_routed(self, order: StackOrder) -> None:
        await wait_routed(order.plan, self._members.address(ROUTER), order.token)

    # What is known of the processes

    def _parts(self, order: StackOrder) -> OrderedParts:
        return OrderedParts(order, self._home, self._members.address)

    def _running(self) -> StackOrder:
        if self.order is None:
            raise UserError("the stack does not run.", "Start it: gym up NAMES")
        return self.order

    def _publish(self) -> None:
        if self.order is None:
            return
        names = [name for name in all_ids(self.order.plan) if name not in self._members.leaving]
        replicas = self._members.statuses(names)
        url = self._members.url
        self._publisher.publish(self.order.plan, replicas, router=url(ROUTER), console=url(CONSOLE))

"""A running stack: its processes, and the changes a user may ask for. All in one event loop, one change at a time."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import functools
import itertools
import logging
import os
import signal
import socket
import time
from collections.abc import Iterable, Mapping, Sequence

from gym.errors import StartFailed, UserError
from gym.plan import diff
from gym.plan.model import Observed, ObservedService, Plan, Service
from gym.plan.sandbox import SANDBOX
from gym.render.launch import Address
from gym.render.traefik import route_prefix
from gym.runtime.base import StackStatus
from gym.runtime.local import listeners
from gym.runtime.local.home import Home, unwritable
from gym.runtime.local.keeper import Keeper, Member, World
from gym.runtime.local.ledger import Ledger
from gym.runtime.local.logs import rotate
from gym.runtime.local.probe import probe
from gym.runtime.local.process import ProcessSpec, Reaper
from gym.runtime.local.publish import Publisher
from gym.runtime.local.specs import (
    CONSOLE,
    ROUTER,
    Order,
    addresses_for,
    binds_itself,
    console_member,
    console_spec,
    router_member,
    router_spec,
    sandbox_member,
    sandbox_spec,
    service_member,
    service_spec,
)
from gym.runtime.sandbox import HAND_OVER, write_config

LEAVING_SECONDS = 0.5  # between leaving the discovery document and SIGTERM: callers look again meanwhile
ROUTED_WITHIN_SECONDS = 3.0  # the router reads a changed file after 0.2 s
ROTATE_EVERY = 10.0

log = logging.getLogger("gym.supervisor")


class Stack:
    """`group` owns the tasks of the keepers."""

    def __init__(self, home: Home, ledger: Ledger, reaper: Reaper, group: asyncio.TaskGroup) -> None:
        self.order: Order | None = None
        self._home = home
        self._ledger = ledger
        self._group = group
        self._world = World(reaper, ledger.add, ledger.drop, self._on_change)
        self._keepers: dict[str, Keeper] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._sockets: dict[str, socket.socket] = {}
        self._leaving: set[str] = set()
        self._publisher = Publisher(home)
        self._dirty = asyncio.Event()
        self._changed = asyncio.Condition()

    def status(self) -> StackStatus:
        plan = self.order.plan if self.order else None
        keepers = [self._keepers[name] for name in _all_ids(plan) if name in self._keepers] if plan else []
        router = self._url(ROUTER)
        return StackStatus(
            stack=plan.stack if plan else "",
            runtime="local",
            router=router,
            replicas=tuple(keeper.status() for keeper in keepers),
        )

    def observed(self) -> Observed:
        services = self.order.plan.services if self.order else ()
        found = {
            one.name: ObservedService(digest=one.digest, replicas=one.replicas, parts=one.parts) for one in services
        }
        if self.order and (broker := self.order.plan.sandbox):
            found[SANDBOX] = ObservedService(digest=broker.digest, replicas=1, parts=broker.parts)
        return Observed(services=found)

    async def next_change(self, timeout: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait()

    async def publish_for_ever(self) -> None:
        """Whoever reads about the stack sees a change within milliseconds, however many come at once."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                self._publish()
            except OSError as error:  # a full disk must not end what runs
                log.error("the stack's state could not be published: %s", error)
                self._dirty.set()
                await asyncio.sleep(1)
            async with self._changed:
                self._changed.notify_all()
            await asyncio.sleep(0.02)

    async def rotate_for_ever(self) -> None:
        while True:
            await asyncio.sleep(ROTATE_EVERY)
            for path in (*self._home.logs.glob("*.log"), self._home.path / "access.log"):
                with contextlib.suppress(OSError):
                    rotate(path)

    async def apply(self, order: Order, timeout: float) -> None:
        """Make the plan real, replacing only what differs; returns when all of it is healthy and routed."""
        deadline = time.monotonic() + timeout
        await _ended([self._tasks[name] for name in self._leaving])  # of a change that failed
        changes = {one.service: one.action for one in diff(order.plan, self.observed())}
        await self._bind_router(order)
        former, self.order = self.order, order
        self._write_plan(order)
        self._bind_replicas(order.plan)
        surplus = await self._leave(set(self._keepers) - set(_all_ids(order.plan)))
        await self._start_broker(order, former, deadline, replace=changes.get(SANDBOX) == "replace")
        self._start_missing(order)
        if former is not None and former.token != order.token:  # which only the console knows, from its start
            self._keepers[CONSOLE].restart(console_spec(order, self._home))
        self._on_change()
        replaced = [one for one in order.plan.services if changes[one.name] == "replace"]
        await self._roll([one.replica_ids() for one in replaced], deadline)
        await self._wait_healthy(_all_ids(order.plan), deadline)
        await self._wait_routed(order)
        await _ended(surplus)

    async def restart(self, names: Sequence[str], timeout: float) -> None:
        """Each instance drains and starts again on its own socket, one replica of it at a time."""
        order = self._running()
        deadline = time.monotonic() + timeout
        await self._roll(self._choose(order.plan, names), deadline)
        await self._wait_routed(order)

    async def scale(self, replicas: Mapping[str, int], timeout: float) -> None:
        order = self._running()
        for name in replicas:
            if order.plan.service(name) is None:
                raise _unknown(name, [one.name for one in order.plan.services])
        services = tuple(
            one.model_copy(update={"replicas": replicas.get(one.name, one.replicas)}) for one in order.plan.services
        )
        plan = order.plan.model_copy(update={"services": services})
        await self.apply(order.model_copy(update={"plan": plan}), timeout)

    async def stop(self) -> None:
        """Drain and end everything at once; only the sandbox broker waits, for those who still use its sandboxes."""
        for names in (set(self._keepers) - {SANDBOX}, {SANDBOX} & set(self._keepers)):
            tasks = [self._tasks[name] for name in names]
            for name in names:
                self._keepers[name].retire()
            await _ended(tasks)
        self.order = None
        self._publisher.withdraw()

    # The parts of `apply`, in its order

    async def _bind_router(self, order: Order) -> None:
        """Before anything else: a port in use must leave a running stack as it was."""
        wanted = order.plan.router
        former = self.order.plan.router if self.order else None
        if former == wanted:
            return
        old = {ROUTER} & set(self._keepers)
        if former is not None and former.port == wanted.port:  # another host: the old socket is in the way
            await _ended(await self._leave(old))
            old = set()
        listener = listeners.listen_for_router(wanted.host, wanted.port)
        await _ended(await self._leave(old))
        self._sockets[ROUTER] = listener

    def _write_plan(self, order: Order) -> None:
        plan = order.plan
        try:
            self._ledger.set_stack(plan.stack, self._url(ROUTER))
            self._publisher.write_plan(plan)
            if order.tokens is not None:
                write_config(self._home.path, plan, order.tokens, mode=0o600)
        except OSError as error:
            raise unwritable(self._home.path, error) from error

    def _bind_replicas(self, plan: Plan) -> None:
        for name in (CONSOLE, *([SANDBOX] if plan.sandbox else [])):
            if name not in self._sockets:
                self._sockets[name] = listeners.listen_on_loopback()
        for service in plan.services:
            bind = listeners.reserve_port if binds_itself(service) else listeners.listen_on_loopback
            for replica in service.replica_ids():
                if replica not in self._sockets:
                    self._sockets[replica] = bind()

    async def _leave(self, names: set[str]) -> list[asyncio.Task[None]]:
        """Take these out of what is published, then let them drain; the tasks end when they have."""
        self._leaving |= names
        tasks = [self._tasks[name] for name in names]
        if names:
            self._on_change()
            await asyncio.sleep(LEAVING_SECONDS)
        for name in names:
            self._keepers[name].retire()
        return tasks

    async def _start_broker(self, order: Order, former: Order | None, deadline: float, *, replace: bool) -> None:
        """Before those who will ask it for sandboxes."""
        if order.plan.sandbox is None:
            return
        spec = sandbox_spec(order, self._home)
        self._ensure(sandbox_member(order.plan), spec)
        if replace:
            earlier = former.plan.sandbox if former else None
            if earlier is not None and earlier.provider == order.plan.sandbox.provider:
                self._hand_over_sandboxes()
            self._keepers[SANDBOX].restart(spec)
        await self._wait_healthy([SANDBOX], deadline)

    def _hand_over_sandboxes(self) -> None:
        """The broker ends, another one follows: its sandboxes stay for that one."""
        keeper = self._keepers[SANDBOX]
        if keeper.state == "healthy" and keeper.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(keeper.pid, getattr(signal, HAND_OVER))

    def _start_missing(self, order: Order) -> None:
        self._ensure(console_member(), console_spec(order, self._home))
        self._ensure(router_member(order.plan), router_spec(order, self._home))
        for service in order.plan.services:
            for replica in service.replica_ids():
                self._ensure(service_member(service, replica), self._spec(order, service, replica), service)

    def _ensure(self, member: Member, spec: ProcessSpec, service: Service | None = None) -> None:
        """Started if it is not there; if it is and waits to be tried again, tried now."""
        if spec.id in self._keepers:
            self._keepers[spec.id].nudge()
            return
        hand_over = service is None or not binds_itself(service)
        keeper = Keeper(member, spec, self._sockets[spec.id], self._world, hand_over=hand_over)
        self._keepers[spec.id] = keeper
        self._tasks[spec.id] = self._group.create_task(keeper.run(), name=spec.id)
        self._tasks[spec.id].add_done_callback(functools.partial(self._forget, keeper))

    def _forget(self, keeper: Keeper, _: asyncio.Task[None]) -> None:
        name = keeper.spec.id
        keeper.listener.close()
        if self._keepers.get(name) is keeper:
            del self._keepers[name], self._tasks[name]
        if self._sockets.get(name) is keeper.listener:
            del self._sockets[name]
        self._leaving.discard(name)
        self._on_change()

    async def _roll(self, groups: Sequence[Sequence[str]], deadline: float) -> None:
        """One replica of each instance at a time, all instances side by side."""
        order = self._running()
        owners = {replica: service for service in order.plan.services for replica in service.replica_ids()}
        for column in itertools.zip_longest(*groups):
            names = [name for name in column if name is not None]
            for name in names:
                spec = self._spec(order, owners[name], name) if name in owners else None
                if name == SANDBOX:
                    self._hand_over_sandboxes()
                self._keepers[name].restart(spec)
            await self._wait_healthy(names, deadline)

    async def _wait_healthy(self, names: Sequence[str], deadline: float) -> None:
        started = time.monotonic()
        wanted = [self._keepers[name] for name in names]
        while ill := [keeper for keeper in wanted if keeper.state != "healthy"]:
            for keeper in ill:
                if keeper.gave_up:
                    raise _start_failed(keeper, f"ended {keeper.early_exits} times at its start ({keeper.detail})")
            if time.monotonic() >= deadline:
                waited = f"not healthy within {time.monotonic() - started:.0f} s"
                raise _start_failed(ill[0], f"{waited}: {ill[0].detail or 'it has not answered'}")
            await self.next_change(min(0.5, max(0.0, deadline - time.monotonic())))

    async def _wait_routed(self, order: Order) -> None:
        """Health is published at once, but the router reads it a little later: `up` means that requests arrive."""
        deadline = time.monotonic() + ROUTED_WITHIN_SECONDS
        waiting = [route_prefix(one) for one in order.plan.services if one.replicas]
        address = listeners.address_of(self._sockets[ROUTER])
        while waiting and time.monotonic() < deadline:
            why = await probe(address, f"{waiting[0]}/healthz", wrong=frozenset({503}), timeout=1.0, token=order.token)
            if why:
                await asyncio.sleep(0.03)
            else:
                waiting.pop(0)
        if waiting:
            log.warning("the router does not yet route %s", ", ".join(waiting))

    # What is known of the processes

    def _spec(self, order: Order, service: Service, replica: str) -> ProcessSpec:
        replicas = {one.name: [self._address(name) for name in one.replica_ids()] for one in order.plan.services}
        addresses = addresses_for(order, service, self._address(replica), replicas, self._address(ROUTER))
        if service.sandbox is not None:
            addresses[SANDBOX] = self._address(SANDBOX)
        return service_spec(order, self._home, service, replica, addresses)

    def _address(self, name: str) -> Address:
        keeper = self._keepers.get(name)
        host, port = keeper.address if keeper else listeners.address_of(self._sockets[name])
        return host, port

    def _url(self, name: str) -> str:
        found = self._keepers[name].address if name in self._keepers else None
        if found is None and name in self._sockets:
            found = listeners.address_of(self._sockets[name])
        return listeners.url_of(*found) if found else ""

    def _choose(self, plan: Plan, names: Sequence[str]) -> list[Sequence[str]]:
        groups: dict[str, Sequence[str]] = {one.name: one.replica_ids() for one in plan.services}
        groups |= {ROUTER: (ROUTER,), CONSOLE: (CONSOLE,)} | ({SANDBOX: (SANDBOX,)} if plan.sandbox else {})
        singles = {name: (name,) for name in _all_ids(plan)}
        for name in names:
            if name not in groups and name not in singles:
                raise _unknown(name, [*groups, *singles])
        return [groups.get(name) or singles[name] for name in names] if names else list(groups.values())

    def _running(self) -> Order:
        if self.order is None:
            raise UserError("the stack does not run.", "Start it: gym up NAMES")
        return self.order

    def _on_change(self) -> None:
        self._dirty.set()

    def _publish(self) -> None:
        if self.order is None:
            return
        replicas = [one for one in self.status().replicas if one.replica not in self._leaving]
        self._publisher.publish(self.order.plan, replicas, router=self._url(ROUTER), console=self._url(CONSOLE))


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    if tasks:
        await asyncio.wait(tasks)


def _all_ids(plan: Plan) -> list[str]:
    own = [CONSOLE, ROUTER, SANDBOX] if plan.sandbox else [CONSOLE, ROUTER]
    return [*(replica for one in plan.services for replica in one.replica_ids()), *own]


def _unknown(name: str, known: Iterable[str]) -> UserError:
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(names)}"
    return UserError(f"no server of this stack is called `{name}`.", hint)


def _start_failed(keeper: Keeper, what: str) -> StartFailed:
    return StartFailed(keeper.member.instance, what, keeper.last_lines(), f"All of its log: gym logs {keeper.spec.id}")

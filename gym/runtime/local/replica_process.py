"""Keeps one process alive: starts it, checks its health, restarts it with back-off, ends it on request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gym.labels import BLOCKED, EXIT_BLOCKED
from gym.runtime.identity import Identity, is_stopped
from gym.runtime.lateness import MAX_EARLY_EXITS, Late
from gym.runtime.local.child_process import (
    Adopted,
    Process,
    ProcessSpec,
    Reaper,
    describe_exit,
    kill_group,
    oom_kills,
    send_signal,
    start_process,
)
from gym.runtime.local.fork_parents import ForkParents
from gym.runtime.local.listeners import address_of, url_of
from gym.runtime.local.probe import SILENCE, probe
from gym.runtime.local.process_logs import rotate, size_of, tail_from
from gym.runtime.local.refusal import failure_of, refusing
from gym.runtime.local.replica_role import ReplicaRole, Seat
from gym.runtime.local.shared_spec import sockets_in_flight
from gym.runtime.status import ReplicaState, ReplicaStatus

BACKOFF_FIRST, MAX_BACKOFF = 0.2, 30.0
HEALTHY_LONG_ENOUGH = 60.0  # after that a crash is a new story
FIRST_PROBE, SLOWEST_PROBE = 0.02, 0.25
START_TIMEOUT = 5.0  # of one question: it waits in the backlog, so a long one finds the server at its first moment
ALIVE_EVERY, ALIVE_TIMEOUT = 2.0, 3.0
AGAIN_AFTER = 0.5  # a first silence is looked into at once
MISSED_ANSWERS = 3  # in a row: a verifier that computes for some seconds is busy, not dead
STOPPED_SECONDS = 3.0  # a process stopped by a signal answers nothing; a debugger has so long to let it go on
HUNG_SECONDS = 120.0  # without a word: then it is no longer busy, it hangs
STOPPED = "stopped by a signal (SIGSTOP)"
SILENT_DRAIN = 5.0  # for one that gives no answer any more: its event loop would have to turn to finish anything
KILL_AFTER_DRAIN = 2.0  # a server that obeys its drain deadline still has to unwind

log = logging.getLogger("gym.supervisor")


@dataclass(frozen=True)
class ProcessContext:
    """What a process needs from its supervisor."""

    reaper: Reaper
    remember: Callable[[str, Identity, str], None]
    forget: Callable[[str], None]
    changed: Callable[[], None]
    let_go: Callable[[str], None] = lambda name: None  # of a port that the server has to bind by itself
    tied: bool = True  # its processes end with the supervisor, for no other one would take them over
    forks: ForkParents | None = None  # each process starts by itself where there are none


class ReplicaProcess:
    """One process of the stack, from its first start until `retire`."""

    def __init__(
        self,
        member: ReplicaRole,
        spec: ProcessSpec,
        listener: socket.socket,
        context: ProcessContext,
        *,
        hand_over: bool,
        found: Adopted | None = None,  # it runs already: an earlier supervisor has started it
        others: Sequence[Seat] = (),  # further instances that live in it
    ):
        self.member = member
        self.spec = spec
        self.listener = listener
        self.others = list(others)
        self.address = address_of(listener)
        self.state: ReplicaState = "starting"
        self.detail = ""
        self.pid: int | None = None
        self.restarts = 0
        self.last_end = ""  # why it ended unasked
        self.last_end_at = 0.0
        self.early_exits = 0
        self.hand_over = hand_over  # the listener itself is passed on; else the process binds its address
        self._context = context
        self._found = found
        self._silent_since: float | None = None
        self._killed_for = ""
        self._since = time.monotonic()
        self._healthy_since: float | None = None
        self._silent = False
        self._log_start = 0
        self._restart_now = False
        self._retired = False
        self._order = asyncio.Event()  # stop what runs: to restart it, or for good
        if context.forks is not None and found is None:
            context.forks.expect(spec)

    @property
    def url(self) -> str:
        return url_of(*self.address)

    @property
    def gave_up(self) -> bool:
        return self.early_exits >= MAX_EARLY_EXITS

    @property
    def seats(self) -> tuple[Seat, ...]:
        return (Seat(self.member, self.listener, self.address), *self.others)

    def status(self) -> ReplicaStatus:
        return self.statuses()[0]

    def statuses(self) -> list[ReplicaStatus]:
        """Of each instance in it: they are healthy together, and end together."""
        return [self._status_of(one) for one in self.seats]

    def _status_of(self, seat: Seat) -> ReplicaStatus:
        return ReplicaStatus(
            instance=seat.role.instance,
            replica=seat.role.replica,
            type=seat.role.type,
            implementation=seat.role.implementation,
            state=self.state,
            url=url_of(*seat.address),
            pid=self.pid,
            restarts=self.restarts,
            uptime_seconds=round(time.monotonic() - self._since, 1) if self.pid else 0.0,
            detail=self.detail,
            last_end=self.last_end,
            last_end_at=self.last_end_at,
        )

    def late(self) -> Late:
        """State and reason as they were seen together."""
        seconds = time.monotonic() - self._since
        words = self._words(self._log_start)
        if self.early_exits:  # it has just begun another try
            words = words or self._words(0)
        return Late(self.spec.id, self.state, seconds, self.detail or self.last_end, words, self.early_exits)

    def _words(self, start: int) -> str:
        own = f"--- {self.spec.id} starts: "
        lines = tail_from(self.spec.log, start, 20)
        return "\n".join(line for line in lines if not line.startswith(own))

    def reseat(self, seats: Sequence[Seat]) -> None:
        """Other instances live in it from its next start on."""
        first, *self.others = seats
        self.member, self.listener, self.address = first.role, first.listener, first.address

    def restart(self, spec: ProcessSpec | None = None) -> None:
        """Drain, end, restart, on the same socket: new connections wait meanwhile."""
        self.spec = spec or self.spec
        self._restart_now = True
        self.early_exits = 0
        self._set("stopping" if self.pid else "starting")
        self._order.set()

    def retry_now(self) -> None:
        """Try now what else the back-off would try later."""
        self.early_exits = 0
        if self.state == "restarting" and not self._retired:
            self._restart_now = True
            self._order.set()

    def retire(self) -> None:
        self._retired = True
        self._set("stopping")
        self._order.set()

    async def run(self) -> None:
        delay = BACKOFF_FIRST
        while not self._retired:
            why = await self._run_once()
            if self._retired or self._restart_now:
                delay = BACKOFF_FIRST
                continue
            self.restarts += 1
            self.last_end, self.last_end_at = why, time.time()
            self.early_exits += self._healthy_since is None
            if self._was_well_long():
                delay = BACKOFF_FIRST
            log.warning("%s: %s; it restarts in %.1f s", self.spec.id, why, delay)
            self._set("restarting", why)
            await self._back_off(delay, why)
            delay = BACKOFF_FIRST if self._order.is_set() else min(delay * 2, MAX_BACKOFF)
        self._set("exited")

    async def _back_off(self, seconds: float, why: str) -> None:
        """One that may come back lets callers wait for it; one that ends at each start answers with its failure."""
        async with contextlib.AsyncExitStack() as stack:
            for one in self.seats if self.hand_over and self.gave_up else ():
                reply = failure_of(one.role.instance, one.role.type, why)
                await stack.enter_async_context(refusing(one.listener, reply))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._order.wait()

    async def _run_once(self) -> str:
        """One process from start to end; how it ended."""
        self._restart_now = False
        self._order.clear()
        self._healthy_since, self._silent_since, self._killed_for, self._silent = None, None, "", False
        killed_before = oom_kills()
        found, self._found = self._found, None
        serves = found is not None and found.healthy
        if not serves:
            self._set("starting")
        try:
            process: Process = found or await self._start()
        except OSError as error:
            return f"it could not be started: {error}"
        self.pid, self._since = process.pid, time.monotonic()
        if serves:  # and goes on, unless its health says otherwise
            self._healthy_since = self._since
            self._set("healthy")
        try:
            code = await self._watch(process)
        finally:
            if process.returncode is None:  # we are being torn down ourselves
                kill_group(process)
            self.pid = None
            self._context.forget(self.spec.id)
        if self._killed_for:
            return self._killed_for
        if code == EXIT_BLOCKED and self.detail.startswith(BLOCKED):
            return self.detail
        perhaps = code == -signal.SIGKILL and oom_kills() > killed_before  # the count is of the whole machine
        return describe_exit(code) + (": perhaps for want of memory, as others on this machine" if perhaps else "")

    async def _start(self) -> Process:
        self._free_address()
        spec, context = self.spec, self._context
        spec.log.parent.mkdir(mode=0o700, exist_ok=True)
        rotate(spec.log)
        self._log_start = size_of(spec.log)

        def remember(identity: Identity) -> None:
            context.remember(spec.id, identity, spec.digest)

        with contextlib.ExitStack() as stack:
            listener = self.listener if self.hand_over else None
            if spec.digests:
                listener = stack.enter_context(sockets_in_flight([one.listener for one in self.seats]))
            forked = await context.forks.start(spec, listener, remember, tied=context.tied) if context.forks else None
            return forked or start_process(spec, listener, remember, tied=context.tied)

    def _free_address(self) -> None:
        """A server that binds by itself gets its port from our reservation where the kernel allows it, and where that
        did not work the port is let go just before."""
        if not self.hand_over and (self.early_exits or sys.platform != "linux"):
            self.listener.close()
            self._context.let_go(self.spec.id)

    async def _watch(self, process: Process) -> int:
        exited = self._context.reaper.exit_of(process)
        async with asyncio.TaskGroup() as group:
            health = group.create_task(self._ask_after(process))
            obedience = group.create_task(self._obey(process))
            code = await exited
            health.cancel()
            obedience.cancel()
        return code

    async def _obey(self, process: Process) -> None:
        await self._order.wait()
        self._set("stopping")
        send_signal(process, signal.SIGTERM)
        drain = self.spec.drain_seconds if self._healthy_since is not None else 0.0  # never ready: nothing is in flight
        drain = min(drain, SILENT_DRAIN) if self._silent else drain
        await asyncio.sleep(drain + KILL_AFTER_DRAIN)
        log.warning("%s: still there %.0f s after SIGTERM: killed", self.spec.id, drain)
        kill_group(process)

    async def _ask_after(self, process: Process) -> None:
        pause = FIRST_PROBE
        while self._healthy_since is None and (why := await self._look(START_TIMEOUT)):
            self._note(why)
            if why == STOPPED:
                self._end_if_hung(process, why, STOPPED_SECONDS)
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, SLOWEST_PROBE)
        self._healthy_since, self.early_exits = self._healthy_since or time.monotonic(), 0
        missed, why = 0, ""
        while True:
            if not self._order.is_set() and missed in (0, MISSED_ANSWERS):
                self._set("unhealthy" if missed else "healthy", why)
            await asyncio.sleep(AGAIN_AFTER if 0 < missed < MISSED_ANSWERS else ALIVE_EVERY)
            why = await self._look(ALIVE_TIMEOUT)
            missed = min(missed + 1, MISSED_ANSWERS) if why else 0
            if why == STOPPED or why.startswith(BLOCKED):  # it says so itself, and has waited before it did
                missed = MISSED_ANSWERS
            self._silent = missed == MISSED_ANSWERS and why.startswith(SILENCE)
            self._end_if_hung(process, why, STOPPED_SECONDS if why == STOPPED else HUNG_SECONDS)

    async def _look(self, timeout: float) -> str:
        """Why it is not healthy; and since when it did not answer at all."""
        stopped = self.pid is not None and is_stopped(self.pid)
        why = STOPPED if stopped else await self._probe(timeout)
        if why != STOPPED and not why.startswith(SILENCE):
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = time.monotonic()
        return why

    async def _probe(self, timeout: float) -> str:
        if self.member.check is not None:
            return await self.member.check(self.spec, self.address, timeout)
        for one in self.seats:
            if why := await probe(one.address, one.role.health_path, wrong=one.role.wrong, timeout=timeout):
                return why
        return ""

    def _end_if_hung(self, process: Process, why: str, limit: float) -> None:
        """One that hangs holds its callers for ever: it is ended, and restarted."""
        if self._silent_since is None or self._order.is_set():
            return
        silent = time.monotonic() - self._silent_since
        if silent >= limit:
            self._killed_for = f"killed, for it hung: {why} for {silent:.0f} s"
            kill_group(process)

    def _was_well_long(self) -> bool:
        return self._healthy_since is not None and time.monotonic() - self._healthy_since >= HEALTHY_LONG_ENOUGH

    def _note(self, detail: str) -> None:
        if detail != self.detail and not self._order.is_set():
            self._set(self.state, detail)

    def _set(self, state: ReplicaState, detail: str = "") -> None:
        if (state, detail) != (self.state, self.detail):
            self.state, self.detail = state, detail
            self._context.changed()

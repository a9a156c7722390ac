"""Notices an event loop that is blocked: names the line in the log, answers for it, and ends the process after a while.

A thread watches. Where the blocked code holds the interpreter's lock, timers of the kernel open a gap for the thread.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Protocol

from gym.labels import BLOCKED, EXIT_BLOCKED
from gym.server.asgi import CURRENT, Call, HotRoutes
from gym.server.errors import place_of

BEAT_SECONDS = 0.5
LOOK_SECONDS = 0.5  # both together cost less than 0.1 % of a core
SAMPLE_SECONDS = 1.0  # what is found at this time, and still there at the next, blocks
REPORT_SECONDS = 2.0
UNHEALTHY_SECONDS = 10.0
STOPPING_SECONDS = 5.0  # a stop waits no longer for a blocked loop: nothing else can end meanwhile
LONGEST_LOOK = (
    1.2  # who did not run for longer was kept from it: by the interpreter's lock, or paused where no CPU went
)
GAP_SECONDS = 1.0  # at most, for code that holds the lock to let the thread look once
# Of CPU, all threads together: between two beats a loop that turns cannot use so much, whatever its threads do.
BETWEEN_BEATS = BEAT_SECONDS * (os.cpu_count() or 1)
BLOCKED_SECONDS = REPORT_SECONDS + BETWEEN_BEATS  # later than the report of a thread that needs no gap
BLOCKED_REPEAT_SECONDS = 5.0  # each time with a stack in the log, which is shown nowhere else
GAP_EVERY_SECONDS = 1.0  # of CPU, once it was logged
ENDING_SLACK = 2.0 + BETWEEN_BEATS
ANSWER_SECONDS = 30.0  # of CPU, to answer all that wait

log = logging.getLogger("gym.server")


@dataclass(frozen=True)
class Blocked:
    """What the loop was found at."""

    place: str  # `app.py:12 in verify: time.sleep(30)`
    stack: str
    call: Call | None = None
    scope: Any = None  # of the request, also where it is not a hot route

    @property
    def headers(self) -> object:
        """By which its connection is found: one list, from the socket to the handler."""
        return self.scope["headers"] if self.scope else self.call.headers if self.call is not None else None

    def __str__(self) -> str:
        return f"{BLOCKED} at {self.place}{f' ({self.request})' if self.request else ''}"

    @property
    def request(self) -> str:
        """`POST /verify of rollout 7-1`."""
        if self.call is not None:
            return f"{self.call.method} {self.call.path}" + (
                f" of rollout {self.call.rollout_id}" if self.call.rollout_id else ""
            )
        return f"{self.scope['method']} {self.scope['path']}" if self.scope else ""


class Deputy(Protocol):
    """Knows the sockets."""

    def refuse(self, blocked: Blocked) -> None:
        """Answer those who come while the loop cannot."""

    def answer_waiting(self, blocked: Blocked) -> None:
        """Answer those who wait, for the process ends."""

    def is_stopping(self) -> bool: ...


class Watchdog:
    """Of one event loop. `start` it there, once the server is up; `end_seconds` of 0: the process is never ended."""

    def __init__(self, deputy: Deputy, end_seconds: float) -> None:
        self._deputy = deputy
        self._end_seconds = end_seconds
        self._beats = self._seen = self._looks = 0
        self._beaten = self._looked = 0.0
        self._paused_seconds = 0.0  # since the last beat
        self._suspect: object = None
        self._suspected = 0.0
        self._found: Blocked | None = None
        self._unhealthy = False
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = threading.Event()
        self._main = threading.get_ident()
        self._runner: FrameType | None = None
        self._thread = threading.Thread(target=self._watch, name="gym-watchdog", daemon=True)

    def start(self) -> None:
        """In the main thread, with the loop running: signals come there."""
        self._loop = asyncio.get_running_loop()
        signal.signal(signal.SIGVTALRM, self._open_gap)
        self._dump_when_blocked()
        self._timer = self._loop.call_later(0, self._begin)

    def _begin(self) -> None:
        """What lies below a callback is the loop itself."""
        self._runner = _without_handles(sys._getframe().f_back)
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """It watches until here, a drain included."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()
        self._set_timers(0.0, 0.0)
        faulthandler.unregister(signal.SIGVTALRM)

    def _beat(self) -> None:
        """Called by the loop as long as it turns. The timers count this process's CPU time: a pause is not a block."""
        self._beats += 1
        self._beaten = time.monotonic()
        self._set_timers(BLOCKED_SECONDS, self._end_seconds and self._end_seconds + ENDING_SLACK)
        self._timer = self._loop.call_later(BEAT_SECONDS, self._beat)

    def _set_timers(self, blocked: float, end: float) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, blocked, BLOCKED_REPEAT_SECONDS)
        # Code that neither returns nor lets a signal's handler run is ended by the kernel: SIGPROF's default.
        signal.setitimer(signal.ITIMER_PROF, end)

    def _dump_when_blocked(self) -> None:
        """Where no line of Python can run any more, C code writes the stack to the log."""
        faulthandler.register(signal.SIGVTALRM, file=2, all_threads=False, chain=True)

    def _open_gap(self, number: int, frame: FrameType | None) -> None:
        """In the main thread, between two steps of the code that blocks it, `re` included."""
        now = time.monotonic()
        if now - self._beaten < REPORT_SECONDS:
            faulthandler.unregister(signal.SIGVTALRM)  # many threads use CPU, the loop turns: no stack for the log
        if now - self._looked < LONGEST_LOOK:
            return
        looks = self._looks
        while self._looks == looks and time.monotonic() - now < GAP_SECONDS:
            time.sleep(0.01)

    # The thread.

    def _watch(self) -> None:
        self._looked, used = time.monotonic(), time.process_time()
        while not self._stopped.wait(LOOK_SECONDS):
            now, cpu = time.monotonic(), time.process_time()
            try:
                self._look(now, now - self._looked, cpu - used)
            except Exception:  # the thread goes on: who else would say that the loop is blocked
                log.exception("the watchdog of the event loop failed")
            self._looked, used = now, cpu
            self._looks += 1

    def _look(self, now: float, passed: float, cpu: float) -> None:
        if self._beats != self._seen:
            self._recover()
        if passed > LONGEST_LOOK and cpu < LONGEST_LOOK / 2:
            self._paused_seconds += passed
        blocked = now - self._beaten - self._paused_seconds
        if self._found is not None:
            self._act(self._found, blocked)
        elif blocked >= SAMPLE_SECONDS:
            self._examine(now, blocked, held=passed > LONGEST_LOOK)

    def _recover(self) -> None:
        if self._found is not None:
            log.warning("the event loop goes on: it was blocked at %s", self._found.place)
            self._dump_when_blocked()
        self._seen, self._paused_seconds = self._beats, 0.0
        self._suspect, self._found, self._unhealthy = None, None, False

    def _examine(self, now: float, blocked: float, *, held: bool) -> None:
        """One step that lasts is blocked; many steps, one after the other, are a busy server.

        `held`: this thread could not run meanwhile, so it was one step.
        """
        frame = sys._current_frames().get(self._main)
        task = asyncio.current_task(self._loop)
        suspect = task or _callback_of(frame, self._runner)
        if suspect is not self._suspect:
            self._suspect, self._suspected = suspect, now
        if frame is None or suspect is None or blocked < REPORT_SECONDS:
            return
        if held or now - self._suspected >= REPORT_SECONDS - SAMPLE_SECONDS:
            self._found = _find(frame, task)
            faulthandler.unregister(signal.SIGVTALRM)
            signal.setitimer(signal.ITIMER_VIRTUAL, GAP_EVERY_SECONDS, GAP_EVERY_SECONDS)
            self._leave_end_to_thread()
            advice = "code that computes or waits for long belongs into gym.server.workers or asyncio.to_thread"
            log.error("%s: nothing else is answered; %s\n%s", self._found, advice, self._found.stack)

    def _leave_end_to_thread(self) -> None:
        """It runs, so it will answer those who wait: the kernel's end must not come in between."""
        if self._end_seconds:
            signal.setitimer(signal.ITIMER_PROF, self._end_seconds + ANSWER_SECONDS)

    def _act(self, found: Blocked, seconds: float) -> None:
        stopping = self._deputy.is_stopping()
        if (self._end_seconds and seconds >= self._end_seconds) or (stopping and seconds >= STOPPING_SECONDS):
            self._leave_end_to_thread()
            log.critical("the process ends: %s, for %.0f s", found, seconds)
            with suppress(OSError):
                self._deputy.answer_waiting(found)
            os._exit(EXIT_BLOCKED)
        if seconds >= UNHEALTHY_SECONDS:
            if not self._unhealthy:
                self._unhealthy = True
                log.error("unhealthy: %s, for %.0f s", found, seconds)
            self._deputy.refuse(found)


def _callback_of(frame: FrameType | None, runner: FrameType | None) -> object:
    """The outermost frame that a callback of the loop runs in; None for a loop that waits."""
    outermost: FrameType | None = None
    while frame is not None and frame is not runner:
        if frame.f_code.co_name not in _OF_LOOPS:
            outermost = frame
        frame = frame.f_back
    return outermost


def _without_handles(frame: FrameType | None) -> FrameType | None:
    """asyncio's loop has frames of its own for each turn, uvloop has none."""
    while frame is not None and frame.f_code.co_name in _OF_LOOPS:
        frame = frame.f_back
    return frame


def _find(frame: FrameType, task: asyncio.Task[Any] | None) -> Blocked:
    call: Call | None = None
    scope: Any = None
    frames: list[tuple[FrameType, int]] = []
    step: FrameType | None = frame
    while step is not None:
        frames.append((step, step.f_lineno))
        if step.f_code is _SERVE and call is None:
            call = step.f_locals.get("call")
        if step.f_code.co_name == "run_asgi" and scope is None:
            scope = getattr(step.f_locals.get("self"), "scope", None)
            break  # what lies outside of a request is the same for each
        step = step.f_back
    if call is None and task is not None and hasattr(task, "get_context"):  # a task that a request started
        call = task.get_context().get(CURRENT)
    summary = traceback.StackSummary.extract(iter(reversed(frames)))
    return Blocked(place_of(summary), "".join(summary.format()).rstrip(), call, scope)


_SERVE = HotRoutes._serve.__code__
_OF_LOOPS = frozenset({"_run_once", "_run", "select"})

"""Pauses an agent's rollouts when the infrastructure fails nearly all of them, and names the server and the reason.

Attempts are counted by their start, since failures end first. A pause ends with one trial rollout after the servers
look healthy; it gives up after `max_pause` without a success. The wait doubles from trial to trial, but for the first
trials that a healthy server fails in a way that no new attempt helps.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from statistics import median
from typing import Literal

from gym.collect.run_replies import SoftFailure
from gym.wire.failures import RolloutError

_INFRA = frozenset({"model", "agent", "resources", "sandbox", "judge", "lost_session"})
_WINDOW, _SHARE = 40, 0.7
_KEPT = 4 * _WINDOW  # attempts that have ended, to find the latest-started ones among them
_MIN_FAILURES, _MIN_ROWS = 8, 5  # one row that fails at each attempt is not an outage
_MAX_WAIT, _MAX_HEALTHY_WAIT = 30.0, 10.0

Probe = Callable[[Collection[str]], Awaitable[str]]


class GaveUp(Exception):
    """The pause lasted longer than the user allows."""


@dataclass(slots=True)
class _Attempt:
    key: str
    began: float
    ended: float | None = None
    failure: RolloutError | None = None


@dataclass(frozen=True, slots=True)
class _Seen:
    """The attempts that were started last and of which something is known."""

    failures: tuple[_Attempt, ...] = ()
    known: int = 0
    running: int = 0  # of the known: they have run for longer than failures take
    young: int = 0  # not known: no older than a failure


class CircuitBreaker:
    """closed: every attempt may start. open: none. half: one trial, whose result decides."""

    def __init__(
        self,
        agent: str,
        *,
        first_wait: float,
        max_pause: float,
        on_change: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.agent = agent
        self.reason = ""
        self._first_wait = first_wait
        self._max_pause = max_pause
        self._on_change = on_change
        self._state: Literal["closed", "open", "half"] = "closed"
        self._trial = False
        self._trial_was_final = False
        self._clock = clock
        self._began = 0
        self._attempts: dict[int, _Attempt] = {}  # in the order of their start
        self._ended: deque[int] = deque()
        self._seen = _Seen()
        self._changed = asyncio.Event()
        self._stopped = False

    async def admit(self) -> bool:
        """Waits until an attempt may start; False when the run stops first."""
        while not self._stopped:
            if self.admit_now():
                return True
            await self._changed.wait()
        return False

    @property
    def admits(self) -> bool:
        """Whether any attempt may start now."""
        return self._state == "closed" and not self._stopped

    def admit_now(self) -> bool:
        """Whether an attempt may start now. In "half" the first one that asks is the trial."""
        if self._state == "half" and not self._trial:
            self._trial = True
            return True
        return self._state == "closed"

    async def wait_for_change(self) -> bool:
        """False when the run has stopped."""
        if not self._stopped:
            await self._changed.wait()
        return not self._stopped

    def stop(self) -> None:
        self._stopped = True
        self._wake()

    def begin(self, key: str) -> int:
        """Registers an attempt in the order of starts; returns its number."""
        self._began += 1
        self._attempts[self._began] = _Attempt(key, self._clock())
        return self._began

    def record(self, number: int, failure: RolloutError | None) -> bool:
        """Registers an attempt's end; False when it does not count against its row, because everything fails now.

        A trial counts, so that a row that always fails comes to its end even where all others have ended.
        """
        bad = failure is not None and failure.kind in _INFRA and not isinstance(failure, SoftFailure)
        if self._state == "closed":
            self._note(number, failure if bad else None)
            if bad and self._dominated():
                self._turn("open", self._why())
            return self._state == "closed"
        if failure is None or not (bad or failure.kind in ("timeout", "cancelled")):
            self._close()
            return True
        trial = self._state == "half"
        self._note(number, failure if bad else None)
        if trial:
            self._trial_was_final = bad and not failure.retryable
            self._seen = self._look()
            self._turn("open", self._why())
        return trial or not bad

    def cancel(self, number: int) -> None:
        """The attempt was cancelled, so it shows nothing. If it was the trial, another one is needed."""
        self._attempts.pop(number, None)
        if self._state == "half":
            self._turn("open", self.reason)

    async def end_pauses(self, probe: Probe) -> None:
        """Ends each pause, or the run by `GaveUp`."""
        while True:
            while self._state != "open":
                await self._changed.wait()
            await self._recover(probe)

    async def _recover(self, probe: Probe) -> None:
        """From the first failure to the next success, with the trials in between."""
        wait, since, final = self._first_wait, time.monotonic(), 0
        while self._state != "closed":
            if self._state == "half":
                await self._changed.wait()
                continue
            left = since + self._max_pause - time.monotonic()
            if left <= 0:
                raise GaveUp(f"paused for {self._max_pause:.0f} s and nothing got better: {self.reason}")
            await asyncio.sleep(min(wait, left))
            problem = await probe(self._suspects())
            if not problem and self._trial_was_final and final < _WINDOW:
                final += 1  # its server works, and fails this row each time: the next row shows more than waiting does
                wait = self._first_wait
            else:
                wait = min(wait * 2, _MAX_WAIT if problem else _MAX_HEALTHY_WAIT)
            self._trial_was_final = False
            if self._state == "open" and problem:
                self._turn("open", problem)
            elif self._state == "open":
                self._turn("half", self.reason)

    def _note(self, number: int, failure: RolloutError | None) -> None:
        attempt = self._attempts.get(number)
        if attempt is None:  # it began before the last pause ended, so it shows nothing of now
            return
        attempt.ended, attempt.failure = self._clock(), failure
        self._ended.append(number)
        if len(self._ended) > _KEPT:
            del self._attempts[self._ended.popleft()]

    def _dominated(self) -> bool:
        self._seen = self._look()
        failures = self._seen.failures
        rows = {one.key for one in failures}
        return len(rows) >= _MIN_ROWS and len(failures) >= max(_MIN_FAILURES, _SHARE * self._seen.known)

    def _look(self) -> _Seen:
        """The attempts that started last. A running one counts as no failure once it is older than failures get."""
        lives = [one.ended - one.began for one in self._attempts.values() if one.failure and one.ended is not None]
        if len(lives) < _MIN_FAILURES and self._state == "closed":
            return _Seen()
        usual, now = median(lives) if lives else 0.0, self._clock()
        failures: list[_Attempt] = []
        known = running = young = 0
        for one in reversed(self._attempts.values()):
            if one.ended is None and now - one.began <= usual:
                young += 1
                continue
            known, running = known + 1, running + (one.ended is None)
            failures += [one] if one.failure else []
            if known == _WINDOW:
                break
        return _Seen(tuple(failures), known, running, young)

    def _close(self) -> None:
        """Earlier attempts show nothing of what comes."""
        self._attempts.clear()
        self._ended.clear()
        self._turn("closed", "")

    def _turn(self, state: Literal["closed", "open", "half"], reason: str) -> None:
        changed = reason != self.reason
        self._state, self.reason = state, reason
        self._trial = False
        self._wake()
        if changed:
            self._on_change(self.agent, reason)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _suspects(self) -> Collection[str]:
        return {self.agent, *(one.failure.server for one in self._seen.failures if one.failure and one.failure.server)}

    def _why(self) -> str:
        found = [one.failure for one in self._seen.failures if one.failure is not None]
        if not found:
            return self.reason
        (server, kind), count = Counter((one.server or self.agent, one.kind) for one in found).most_common(1)[0]
        last = next(one for one in found if (one.server or self.agent, one.kind) == (server, kind))
        text = " ".join(last.message.split())
        return f"{server} fails ({kind}, {count} of the last {self._over_which()}): {text[:300]}"

    def _over_which(self) -> str:
        seen = self._seen
        running = f", {seen.running} of them still running" if seen.running else ""
        young = f"; {seen.young} still running are too young to count" if seen.young else ""
        return f"{seen.known} attempts{running}{young}"

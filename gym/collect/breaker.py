"""Pauses an agent's rollouts when the infrastructure fails most of them, and says which server and why.

A pause ends with one trial rollout after the servers look healthy; it gives up after `max_pause` without a success.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection
from typing import Literal

from gym.collect.replies import SoftFailure
from gym.wire.failures import RolloutError

_INFRA = frozenset({"model", "agent", "resources", "sandbox", "judge", "lost_session"})
_WINDOW, _SHARE = 40, 0.7
_LEAST, _LEAST_ROWS = 8, 5  # one poisonous row that fails at each attempt is no outage
_LONGEST_WAIT, _LONGEST_HEALTHY_WAIT = 30.0, 10.0

Probe = Callable[[Collection[str]], Awaitable[str]]


class GaveUp(Exception):
    """The pause lasted longer than the user allows."""


class Breaker:
    """closed: all may go. open: nobody. half: one trial, whose outcome decides."""

    def __init__(
        self, agent: str, *, first_wait: float, max_pause: float, on_change: Callable[[str, str], None]
    ) -> None:
        self.agent = agent
        self.reason = ""
        self._first_wait = first_wait
        self._max_pause = max_pause
        self._on_change = on_change
        self._state: Literal["closed", "open", "half"] = "closed"
        self._trial = False
        self._window: deque[tuple[str, RolloutError | None]] = deque()
        self._failed: Counter[str] = Counter()  # failures in the window, by row
        self._changed = asyncio.Event()
        self._stopped = False

    async def admit(self) -> bool:
        """Waits until an attempt may start; False when the run stops first."""
        while not self._stopped:
            if self._state == "closed":
                return True
            if self._state == "half" and not self._trial:
                self._trial = True
                return True
            await self._changed.wait()
        return False

    def stop(self) -> None:
        self._stopped = True
        self._wake()

    def record(self, key: str, failure: RolloutError | None) -> bool:
        """Takes note of an attempt's end; False when it is not to be held against its row: everything fails now.

        A trial counts for its row, so that poisonous rows come to their end even where all others have ended.
        """
        bad = failure is not None and failure.kind in _INFRA and not isinstance(failure, SoftFailure)
        if self._state == "closed":
            self._note(key, failure if bad else None)
            if bad and self._dominated():
                self._turn("open", self._why())
            return self._state == "closed"
        if failure is None or not (bad or failure.kind in ("timeout", "cancelled")):
            self._close()
            return True
        if bad:
            self._note(key, failure)
        trial = self._state == "half"
        if trial:
            self._turn("open", self._why())
        return trial or not bad

    async def watch(self, probe: Probe) -> None:
        """Ends each pause, or the run."""
        while True:
            while self._state != "open":
                await self._changed.wait()
            await self._recover(probe)

    async def _recover(self, probe: Probe) -> None:
        """From the first failure to the next success, trials in between included."""
        wait, since = self._first_wait, time.monotonic()
        while self._state != "closed":
            if self._state == "half":
                await self._changed.wait()
                continue
            left = since + self._max_pause - time.monotonic()
            if left <= 0:
                raise GaveUp(f"paused for {self._max_pause:.0f} s and nothing got better: {self.reason}")
            await asyncio.sleep(min(wait, left))
            trouble = await probe(self._suspects())
            wait = min(wait * 2, _LONGEST_WAIT if trouble else _LONGEST_HEALTHY_WAIT)
            if self._state == "open" and trouble:
                self._turn("open", trouble)
            elif self._state == "open":
                self._turn("half", self.reason)

    def _note(self, key: str, failure: RolloutError | None) -> None:
        if len(self._window) == _WINDOW:
            oldest, was = self._window.popleft()
            if was is not None:
                self._failed -= Counter((oldest,))
        self._window.append((key, failure))
        if failure is not None:
            self._failed[key] += 1

    def _dominated(self) -> bool:
        count = self._failed.total()
        return len(self._failed) >= _LEAST_ROWS and count >= max(_LEAST, _SHARE * len(self._window))

    def _close(self) -> None:
        self._window.clear()
        self._failed.clear()
        self._turn("closed", "")

    def _turn(self, state: Literal["closed", "open", "half"], reason: str) -> None:
        told = reason != self.reason
        self._state, self.reason = state, reason
        self._trial = False
        self._wake()
        if told:
            self._on_change(self.agent, reason)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _suspects(self) -> Collection[str]:
        return {self.agent, *(one.server for _, one in self._window if one is not None and one.server)}

    def _why(self) -> str:
        found = [one for _, one in self._window if one is not None]
        (server, kind), count = Counter((one.server or self.agent, one.kind) for one in found).most_common(1)[0]
        last = next(one for one in reversed(found) if (one.server or self.agent, one.kind) == (server, kind))
        text = " ".join(last.message.split())
        return f"{server} fails ({kind}, {count} of the last {len(self._window)} attempts): {text[:300]}"

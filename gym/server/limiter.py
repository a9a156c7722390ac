"""How many calls a provider gets at once: fewer when it says 429, slowly more while it does not.

Additive increase, multiplicative decrease, between 1 and what the user allows. Who waits here keeps nothing busy.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque

log = logging.getLogger("gym.server")

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0  # for all calls after a refusal that names no time of its own
PATIENT_SECONDS = 120.0  # of refusals without one success between them; beyond it they count as failures


class Closed(Exception):  # noqa: N818 (an answer: not now)
    """No place before the caller's deadline. `seconds`: how long the provider still wants to be left alone."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"{seconds:.1f} s")
        self.seconds = seconds


class Limiter:
    """Of one provider and one event loop. `enter`, then exactly one of `succeed`, `throttle` and `leave`."""

    def __init__(self, most: int | None = None) -> None:
        self._most = float(most) if most else float("inf")
        self._limit = self._most
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed_until = 0.0
        self._cut_at = float("-inf")
        self._strikes = 0  # cuts since the last success
        self._refused_since: float | None = None
        self.throttled = 0

    @property
    def limit(self) -> int | None:
        """None: as many as come."""
        return None if self._limit == float("inf") else max(1, int(self._limit))

    async def enter(self, ends: float) -> float:
        """Waits for a place; the loop's time of the start. `Closed` when there is none before `ends`."""
        loop = asyncio.get_running_loop()
        if self._waiting or not self._has_place():
            await self._wait(loop, ends)
        else:
            self._in_flight += 1
        return loop.time()

    def leave(self) -> None:
        self._in_flight -= 1
        self._wake()

    def succeed(self) -> None:
        self._strikes, self._refused_since = 0, None
        if self._limit < self._most and self._in_flight * 2 >= self._limit:  # room that is not used tells nothing
            self._limit = min(self._limit + 1 / self._limit, self._most)
        self.leave()

    def throttle(self, began: float, wait: float) -> bool:
        """The call that began then was refused for now; `wait` is the provider's wish. Is there patience left?"""
        now = asyncio.get_running_loop().time()
        self.throttled += 1
        self._refused_since = now if self._refused_since is None else self._refused_since
        if began >= self._cut_at:  # of many that were sent together, one refusal counts
            self._cut(now)
        self._close(now, wait or _jitter(min(FIRST_PAUSE * 2 ** (self._strikes - 1), LONGEST_PAUSE)))
        self.leave()
        return now - self._refused_since < PATIENT_SECONDS

    def _cut(self, now: float) -> None:
        before, self._limit = self._limit, max(1.0, min(self._limit, self._in_flight) / 2)
        self._cut_at = now
        self._strikes += 1
        if self._limit < before:
            log.warning("the provider refuses calls for now (429): %d at once from here on", self._limit)

    def _close(self, now: float, seconds: float) -> None:
        """Nobody enters for a while; those who wait are woken after it."""
        if now + seconds > self._closed_until:
            self._closed_until = now + seconds
            asyncio.get_running_loop().call_at(self._closed_until, self._reopen, self._closed_until)

    def _reopen(self, until: float) -> None:
        """Timers may come a little early: what opens is said here, not read from a clock."""
        if until == self._closed_until:
            self._closed_until = 0.0
            self._wake()

    def _has_place(self) -> bool:
        return not self._closed_until and self._in_flight < max(self._limit, 1.0)

    async def _wait(self, loop: asyncio.AbstractEventLoop, ends: float) -> None:
        if self._closed_until >= ends:
            raise Closed(self._closed_until - loop.time())
        place = loop.create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout_at(ends):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self.leave()  # it was given at the moment of the end
            elif place in self._waiting:
                self._waiting.remove(place)
            if isinstance(error, TimeoutError):
                raise Closed(max(self._closed_until - loop.time(), 0.0)) from None
            raise

    def _wake(self) -> None:
        while self._waiting and self._has_place():
            place = self._waiting.popleft()
            if not place.done():
                self._in_flight += 1
                place.set_result(None)


def _jitter(seconds: float) -> float:
    return random.uniform(seconds / 2, seconds)

"""How many calls a provider gets at once, and who waits for a place. What is decided from refusals is in `aimd`.

A refusal holds back the call that was refused, and all of them only when nothing at all comes through.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections import deque
from typing import Any

from gym.server.aimd import PROOF, Aimd

log = logging.getLogger("gym.server")

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0  # after a refusal that names no time of its own
LONGEST_SHUT = 60.0  # one call asks then whether it is over, whatever time was named
REFUSED_TIMEOUT_SECONDS = 120.0  # of refusals without one success between them; beyond it they count as failures
LATELY_SECONDS = 10
# The first calls: where the limit is low, nearly all places at once would be refused. 64 after 1 s, 1000 after 2 s.
FIRST_PLACES, DOUBLE_SECONDS, STEP_SECONDS, OPENING_SECONDS = 4, 0.25, 0.05, 4.0


class Closed(Exception):  # noqa: N818 (an answer: not now)
    """No place before the caller's deadline. `seconds`: how long the provider still wants to be left alone."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"{seconds:.1f} s")
        self.seconds = seconds


class Limiter:
    """Of one provider and one event loop. `enter`, then exactly one of `succeed`, `throttle` and `leave`."""

    def __init__(self, max_concurrent: int | None = None) -> None:
        self._aimd = Aimd(float(max_concurrent) if max_concurrent else math.inf)
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._opened: float | None = None  # when more calls came than that
        self._opening = float(FIRST_PLACES)
        self._closed_until = 0.0
        self._refused_since: float | None = None
        self._lately = Lately()
        self.resting = 0  # calls that were refused and wait before a retry
        self.throttled = 0

    @property
    def limit(self) -> int | None:
        """None: as many as come."""
        return None if self._aimd.limit == math.inf else max(1, int(self._aimd.limit))

    def status(self) -> dict[str, Any]:
        """What is held back now, for `/healthz`; empty where nothing was refused and nothing waits for a limit."""
        waiting = len(self._waiting) + self.resting
        if not self.throttled and not (waiting and self.limit):
            return {}
        return {
            "throttled": self.throttled,
            "at_once": self.limit,
            "waiting": waiting,
            "refused_lately": self._lately.count(asyncio.get_running_loop().time()),
            "lately_seconds": LATELY_SECONDS,
        }

    async def enter(self, deadline: float) -> int:
        """Waits for a place; the number of the call. `Closed` when there is none before `deadline`."""
        loop = asyncio.get_running_loop()
        if self._waiting or not self._has_place():
            if self._opened is None:
                self._opened = loop.time()
                self._open(loop)
            await self._wait(loop, deadline)
        else:
            self._in_flight += 1
        return self._aimd.start()

    def leave(self) -> None:
        self._in_flight -= 1
        self._wake()

    def succeed(self, number: int) -> None:
        self._refused_since = None
        self._aimd.observe(number, "done", self._in_flight)
        self.leave()

    def throttle(self, number: int, wait: float) -> bool:
        """The call was refused for now; `wait` is the provider's wish. True while another try is allowed."""
        now = asyncio.get_running_loop().time()
        self.throttled += 1
        self._lately.add(now)
        self._refused_since = now if self._refused_since is None else self._refused_since
        before = self._aimd.limit
        if self._aimd.observe(number, "refused", self._in_flight) < before:
            log.warning("the provider refuses too many calls (429): %d at once from here on", self.limit)
        if self._aimd.is_shut:
            self._close(now, min(wait, LONGEST_SHUT) or pause(self._aimd.dry - PROOF))
        self.leave()
        return now - self._refused_since < REFUSED_TIMEOUT_SECONDS

    async def rest(self, seconds: float) -> None:
        """A refused call waits for itself, without a place."""
        self.resting += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self.resting -= 1

    def _close(self, now: float, seconds: float) -> None:
        """No call enters for a while; those that wait are woken after it."""
        if now + seconds > self._closed_until:
            self._closed_until = now + seconds
            asyncio.get_running_loop().call_at(self._closed_until, self._reopen, self._closed_until)

    def _reopen(self, until: float) -> None:
        """Timers may come a little early: what opens is said here, not read from a clock."""
        if until == self._closed_until:
            self._closed_until = 0.0
            self._wake()

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        """More and more places, until the first cut says how many there are."""
        assert self._opened is not None
        passed = loop.time() - self._opened
        if self._aimd.cuts or passed >= OPENING_SECONDS:
            self._opening = math.inf
        else:
            self._opening = FIRST_PLACES * 2 ** (passed / DOUBLE_SECONDS)
            loop.call_later(STEP_SECONDS, self._open, loop)
        self._wake()

    def _has_place(self) -> bool:
        limit = self.limit
        room = self._opening if limit is None else min(limit, self._opening)
        return not self._closed_until and self._in_flight < room

    async def _wait(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._closed_until >= deadline:
            raise Closed(self._closed_until - loop.time())
        place = loop.create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout_at(deadline):
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


class Lately:
    """Counts what happened in the last seconds, in as many numbers."""

    def __init__(self) -> None:
        self._seconds: deque[list[int]] = deque(maxlen=LATELY_SECONDS + 1)

    def add(self, now: float) -> None:
        if self._seconds and self._seconds[-1][0] == int(now):
            self._seconds[-1][1] += 1
        else:
            self._seconds.append([int(now), 1])

    def count(self, now: float) -> int:
        return sum(count for second, count in self._seconds if second > now - LATELY_SECONDS)


def pause(refusals: int, wish: float = 0.0) -> float:
    """Seconds before one call is retried: the provider's wish and a little more, so that not all come back at once."""
    if wish:
        return wish * random.uniform(1.0, 1.05)
    longest = min(FIRST_PAUSE * 2 ** min(refusals, 30), LONGEST_PAUSE)
    return random.uniform(longest / 2, longest)

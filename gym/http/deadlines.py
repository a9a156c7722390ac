"""When replies are due: one timer for all requests of a client. One for each would be 2 to 3 us a request."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection
from typing import Final, Protocol

AT_LEAST: Final = 0.005  # seconds between two looks, however many replies are due one after the other


class DueReply(Protocol):
    """A connection on which a reply may be awaited."""

    @property
    def waits(self) -> bool: ...

    @property
    def due(self) -> float: ...

    def expire(self) -> None:
        """It is due. From here on it waits no longer, or is due later."""


class Deadlines:
    """Looks through all that waits when the first deadline comes that was known at the last look."""

    def __init__(self, waiting: Collection[DueReply]) -> None:
        self._waiting = waiting  # also those that wait for nothing now
        self._timer: asyncio.TimerHandle | None = None
        self.next = math.inf  # when the timer rings, by the loop's time: who is due earlier calls `ring_at`

    def ring_at(self, due: float) -> None:
        self.close()
        self.next = due
        self._timer = asyncio.get_running_loop().call_at(due, self._look)

    def close(self) -> None:
        self.next = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        now = max(asyncio.get_running_loop().time(), self.next)  # a timer may ring a moment early
        first = math.inf
        for one in self._waiting:
            if one.waits and one.due <= now:
                one.expire()
            if one.waits and one.due < first:
                first = one.due
        self.close()
        if first < math.inf:
            self.ring_at(max(first, now + AT_LEAST))

"""Requests that come all at once begin a few in each turn of the event loop.

Ten thousand that begin in one turn are a second in which nothing is accepted, written or said of the server's health.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

EACH_TURN: Final = 32  # with 0.1 ms of CPU each, 3 ms


class PacedStarts:
    """Of one event loop. A turn ends when what was called soon is called: all that had come was looked at by then.

    No clock says it: uvloop's goes on within a turn.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._begun = 0  # in this turn
        self._waiting: deque[Callable[[], object]] = deque()

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def may_begin(self) -> bool:
        """Whether one more may begin in this turn; it counts as begun."""
        if self._waiting:
            return False
        self._begun += 1
        if self._begun == 1:
            self._loop.call_soon(self._end_turn)
        return self._begun <= EACH_TURN

    def begin_later(self, begin: Callable[[], object]) -> None:
        """In a later turn, behind those that wait already."""
        self._waiting.append(begin)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._begin_some)

    def _begin_some(self) -> None:
        for _ in range(min(EACH_TURN, len(self._waiting))):
            self._waiting.popleft()()
        if self._waiting:
            self._loop.call_soon(self._begin_some)

    def _end_turn(self) -> None:
        self._begun = 0

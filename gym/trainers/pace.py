"""Who may send a rollout now: a number of places that may change at any time, first come first served, and a pause."""

from __future__ import annotations

import asyncio
from collections import deque


class Pace:
    """Like a semaphore, but its size changes, it can be shut, and one can wait until it is empty."""

    def __init__(self, size: int, version: int = 0) -> None:
        """`version`: of the policy that serves now."""
        self.size = size
        self.version = version
        self.inside = 0
        self.paused = False
        self.hungry = asyncio.Event()  # a line has formed: more places would be used
        self._line: deque[asyncio.Future[None]] = deque()
        self._empty: list[asyncio.Future[None]] = []

    @property
    def waiting(self) -> int:
        return sum(not one.done() for one in self._line)

    async def take(self) -> None:
        if not self.paused and self.inside < self.size and not self._line:
            self.inside += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._line:
            self.hungry.set()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give()  # it was called in the same moment
            else:
                self._admit()  # it may have stood in front of others
            raise

    def give(self) -> None:
        self.inside -= 1
        self._admit()
        if not self.inside:
            for one in self._empty:
                if not one.done():
                    one.set_result(None)
            self._empty.clear()

    def resize(self, size: int) -> None:
        """A smaller size takes no place back."""
        self.size = size
        self._admit()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self._admit()

    async def wait_until_empty(self) -> None:
        if self.inside:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._empty.append(waiter)
            await waiter

    def _admit(self) -> None:
        while self._line and (self._line[0].done() or (not self.paused and self.inside < self.size)):
            turn = self._line.popleft()
            if not turn.done():
                self.inside += 1
                turn.set_result(None)

"""The open files of this process: as many as its kernel allows, and some of them kept for those who call it.

A server in the middle of a stack holds a connection for each caller and one to whom it asks for him. If those took the
last file, it could accept no caller any more, not even a health check, and would be restarted as dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

MAX_FILES: Final = 1 << 20  # some programs close all that could be open, one after the other, before they start
OWN: Final = 256  # files other than connections: modules, logs, workers, databases
KEPT: Final = 20  # one file of so many is kept for new callers


class IdleConnections(Protocol):
    def drop_idle(self) -> bool:
        """Closes one connection that no call uses; False where there is none."""


class OpenFiles:
    """Who opens a connection takes a place, and gives it back once it is closed. No bound until `bound` is called."""

    def __init__(self) -> None:
        self.taken = 0  # by connections that this process opened
        self._limit = 0  # of connections, those of callers included; 0: no bound
        self._count_callers: Callable[[], int] = int
        self._pools: dict[IdleConnections, None] = {}
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._woken = 0  # woken as something came free, and have not looked yet

    def bound(self, files: int, count_callers: Callable[[], int]) -> None:
        """By so many files; `count_callers`: the connections that others opened to this process."""
        self._limit = max(files - OWN - files // KEPT, files // 2)
        self._count_callers = count_callers

    @property
    def max_connections(self) -> int:
        """Connections that this process may open while as many callers are connected; 0: no bound."""
        return self._limit // 2

    @property
    def has_room(self) -> bool:
        return not self._limit or self.taken + self._count_callers() < self._limit

    @property
    def is_awaited(self) -> bool:
        """Others were first: who comes now waits behind them."""
        return bool(self._waiting or self._woken)

    def join(self, pool: IdleConnections) -> None:
        """Its idle connections make way for others."""
        self._pools[pool] = None

    def leave(self, pool: IdleConnections) -> None:
        self._pools.pop(pool, None)

    def take(self) -> bool:
        """A place for one connection; False while there is none."""
        if not self.has_room:
            return False
        self.taken += 1
        return True

    def give(self) -> None:
        """One connection is closed."""
        self.taken -= 1
        self.wake()

    def wake(self) -> None:
        """Something came free: the first of those who wait has a look."""
        while self._waiting:
            waiter, _ = self._waiting.popitem(last=False)
            if not waiter.done():
                self._woken += 1
                waiter.set_result(None)
                return

    async def wait(self, *, retry: bool = False) -> None:
        """Until something may have come free. `retry`: as the first of all, for what came free was gone."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = None
        if retry:
            self._waiting.move_to_end(waiter, last=False)
        if not self._woken:
            self._drop_idle()
        try:
            await waiter
        except asyncio.CancelledError:
            self._waiting.pop(waiter, None)
            if not waiter.cancelled():  # woken at the same moment: the next one looks instead
                self._woken -= 1
                self.wake()
            raise
        self._woken -= 1

    def make_room(self) -> None:
        """A caller has come: while files are few, an idle connection of ours makes way for him."""
        if not self.has_room:
            self._drop_idle()

    def _drop_idle(self) -> None:
        for pool in self._pools:
            if pool.drop_idle():
                return


OPEN_FILES: Final = OpenFiles()  # of this process


def raise_limit() -> int:
    """Makes the soft limit of open files as high as the hard one; returns how many there may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed, wanted = _count(soft), _count(hard)
    if allowed < wanted:
        with contextlib.suppress(OSError, ValueError):  # macOS has a limit below its own hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return allowed


def _count(limit: int) -> int:
    return MAX_FILES if limit == resource.RLIM_INFINITY else min(limit, MAX_FILES)

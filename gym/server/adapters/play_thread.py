"""Runs what is not asynchronous in a thread of its own, which can be left behind: Python cannot end one."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from gym.wire.failures import RolloutError

T = TypeVar("T")
MAX_LEFT: Final = 32  # threads that run on after their play has ended; beyond it the server is not fit for more


class PlayThreads:
    """Of one server. They do not keep its process from ending."""

    def __init__(self) -> None:
        self._left: set[threading.Thread] = set()

    async def run(self, work: Callable[[], T]) -> T:
        self._left = {one for one in self._left if one.is_alive()}
        if len(self._left) >= MAX_LEFT:
            what = f"{MAX_LEFT} plays that were ended still run in their threads: does the library wait for ever?"
            raise RolloutError("agent", what)
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(_work, work, outcome, loop), name="play", daemon=True)
        thread.start()
        try:
            return await outcome
        except asyncio.CancelledError:
            self._left.add(thread)
            raise


def _work(work: Callable[[], T], outcome: asyncio.Future[T], loop: asyncio.AbstractEventLoop) -> None:
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 (it is raised where the outcome is awaited)
        _tell(loop, _fail, outcome, error)
    else:
        _tell(loop, _finish, outcome, result)


def _tell(loop: asyncio.AbstractEventLoop, tell: Callable[..., None], *what: object) -> None:
    try:
        loop.call_soon_threadsafe(tell, *what)
    except RuntimeError:
        return  # the server has stopped meanwhile


def _finish(outcome: asyncio.Future[T], result: T) -> None:
    if not outcome.done():
        outcome.set_result(result)


def _fail(outcome: asyncio.Future[T], error: BaseException) -> None:
    if not outcome.done():
        outcome.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))

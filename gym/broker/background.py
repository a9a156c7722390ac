"""Background work with an owner: everything spawned is awaited or cancelled at the end, and no failure is silent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
log = logging.getLogger("gym.broker")


class BackgroundTasks:
    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def aclose(self) -> None:
        """Cancels all tasks, and returns when they have ended."""
        own = asyncio.current_task()
        while running := [task for task in self._running if task is not own]:
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=5.0)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not hasattr(error, "retryable"):
            log.error("%s broke: %s", task.get_name(), error, exc_info=error)


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Runs to its end even when the caller is cancelled on the way; the caller then learns of it afterwards."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise

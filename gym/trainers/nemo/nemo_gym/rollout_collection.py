"""`run_examples`: rows in, awaitables of (row, result) out, in the order in which the rollouts finish."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import aiohttp

from nemo_gym.nemo_attempts import NemoAttempts
from nemo_gym.nemo_stack import find_stack
from nemo_gym.server_utils import BaseServerConfig

Json = dict[str, Any]
Ended = tuple[Json, Json] | Exception
Turn = AbstractAsyncContextManager[Any]


class RolloutCollectionHelper:
    def run_examples(
        self,
        examples: Sequence[Json],
        head_server_config: BaseServerConfig | None = None,
        semaphore: asyncio.Semaphore | None = None,
    ) -> Iterator[Awaitable[tuple[Json, Json]]]:
        """Call it where an event loop runs. The row comes back as it was given, `_rowidx` and all."""
        attempts = NemoAttempts(find_stack(head_server_config))
        return Rollouts(list(examples), attempts, semaphore or nullcontext())


class Rollouts(Iterator[Awaitable[tuple[Json, Json]]]):
    """When it and the awaitables it gave are dropped, what is under way is cancelled: at the stack too."""

    def __init__(self, rows: list[Json], attempts: NemoAttempts, turn: Turn) -> None:
        loop = asyncio.get_running_loop()
        self._left = len(rows)
        self._ended: asyncio.Queue[Ended] = asyncio.Queue()
        work = loop.create_task(_run_all(rows, attempts, attempts.open_session(), turn, self._ended))
        weakref.finalize(self, _cancel, loop, work).atexit = False

    def __next__(self) -> Awaitable[tuple[Json, Json]]:
        if not self._left:
            raise StopIteration
        self._left -= 1
        return self._take()

    async def _take(self) -> tuple[Json, Json]:
        ended = await self._ended.get()
        if isinstance(ended, Exception):
            raise ended
        return ended


async def _run_all(
    rows: list[Json], attempts: NemoAttempts, session: aiohttp.ClientSession, turn: Turn, ended: asyncio.Queue[Ended]
) -> None:
    async def run(number: int, row: Json) -> None:
        try:
            async with turn:
                ended.put_nowait((row, await attempts.run(session, row, number)))
        except Exception as error:  # noqa: BLE001 (raised where the rollout is awaited)
            ended.put_nowait(error)

    async with session, asyncio.TaskGroup() as tasks:
        for number, row in enumerate(rows):
            tasks.create_task(run(number, row))


def _cancel(loop: asyncio.AbstractEventLoop, work: asyncio.Task[None]) -> None:
    if not work.done() and not loop.is_closed():
        loop.call_soon_threadsafe(work.cancel)

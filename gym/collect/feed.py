"""Tasks for the workers, read ahead by one thread and no further than they need.

A slow disk or a silent pipe blocks neither the event loop nor the end of the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from gym.collect.fair_queue import FairQueue
from gym.collect.task_reader import Task, TaskReader
from gym.data.line_source import is_blank, row_to_line
from gym.errors import Problem, UserError

_BATCH, _BATCH_BYTES = 64, 4 << 20
_FIRST, _FIRST_BYTES = 1000, 32 << 20  # checked before the run starts
_AHEAD = 2  # batches on their way, and as many rows as there are workers: they may all end at the same moment
_LOOKS = 8  # rows taken between two looks whether more are needed, while there are many
_FAR = 10_000  # more rows, where the agents of those that wait have enough

_CLOSE_SECONDS = 0.5  # for the thread to close its files; one that waits for a pipe is left behind

Rows = Iterable[object] | AsyncIterable[object]


class Feed(Protocol):
    async def take(self) -> Task | None:
        """The next task; None when there is none left."""
        ...


class FileFeed:
    """Runs an iterator of tasks and problems in a thread of its own."""

    def __init__(
        self,
        items: Iterator[Task | Problem],
        on_problem: Callable[[Problem], bool],
        *,
        workers: int = 1,
        eager: bool = False,
    ) -> None:
        """`on_problem` says whether to go on; `eager` input (a pipe) is handed over line by line."""
        self._items = items
        self._on_problem = on_problem
        self._eager = eager
        self._loop = asyncio.get_running_loop()
        self._queue = FairQueue()
        self._waiters: deque[asyncio.Future[None]] = deque()  # of workers that found no task
        self._room = threading.Semaphore(_AHEAD + -(-workers // _BATCH))  # batches that the thread may hand over
        self._held_back = 0  # batches that came and for which no other was asked yet
        self._enough = workers + _BATCH  # rows that wait
        self._first: asyncio.Future[None] = self._loop.create_future()
        self._closed = self._over = False
        self._error: BaseException | None = None
        self.exhausted = False  # the whole input was read
        self._thread = threading.Thread(target=self._read, name="gym-collect-source", daemon=True)

    async def start(self) -> None:
        """Returns when the first batch was read and its problems were reported."""
        self._thread.start()
        await self._first

    async def take(self) -> Task | None:
        """`finish` what was taken: the next task is one of the agent that has the fewest under way."""
        while (task := self._queue.take()) is None:
            if self._over:
                if self._error is not None:
                    raise self._error
                return None
            await self._wait()
        if self._held_back and (self._queue.rows < _BATCH or not self._queue.rows % _LOOKS):
            self._ask_for_more()
        return task

    def finish(self, task: Task) -> None:
        self._queue.finish(task)

    def close(self) -> None:
        """No more tasks from now on; what was read ahead is left for another run."""
        self._closed = self._over = True
        self._queue.clear()
        self._wake(len(self._waiters))
        self._room.release()

    async def aclose(self) -> None:
        self.close()
        await asyncio.to_thread(self._thread.join, _CLOSE_SECONDS)

    # In the thread.

    def _read(self) -> None:
        error: BaseException | None = None
        try:
            for batch in _batches(self._items, eager=self._eager):
                self._room.acquire()
                if self._closed or not self._call_loop(self._deliver, batch):
                    return
        except BaseException as caught:  # noqa: BLE001 (raised by the next `take`)
            error = caught
        finally:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()
        self._call_loop(self._end, error)

    def _call_loop(self, function: Callable[..., None], argument: object) -> bool:
        try:
            self._loop.call_soon_threadsafe(function, argument)
        except RuntimeError:  # the loop is gone: the run has ended
            return False
        return True

    # In the event loop.

    async def _wait(self) -> None:
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self._wake(1)  # what it was woken for is there for another
            raise

    def _wake(self, count: int) -> None:
        while count > 0 and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    def _deliver(self, batch: list[Task | Problem]) -> None:
        go_on, came = True, self._queue.rows
        for item in batch:
            if not isinstance(item, Task):
                go_on = self._on_problem(item) and go_on
            elif go_on and not self._closed:
                self._queue.put(item)
        if not go_on:
            self.close()
        self._wake(self._queue.rows - came)
        self._held_back += 1
        self._ask_for_more()
        self._start_is_over()

    def _ask_for_more(self) -> None:
        queue, enough = self._queue, self._enough
        if not self._held_back or queue.size >= _FIRST_BYTES:
            return
        if queue.rows < enough or (queue.rows < enough + _FAR and queue.runs_short(enough)):
            self._held_back -= 1
            self._room.release()

    def _end(self, error: BaseException | None) -> None:
        self._error = self._error or error
        self.exhausted = error is None and not self._closed
        self._over = True
        self._wake(len(self._waiters))
        self._start_is_over()

    def _start_is_over(self) -> None:
        if not self._first.done():
            self._first.set_result(None)


class RowsFeed:
    """Rows that a program hands over, pulled one by one as workers get free."""

    def __init__(self, reader: TaskReader, rows: Rows, on_bad: Callable[[Problem], None]) -> None:
        if isinstance(rows, (str, bytes, Path, Mapping)):
            kind = "one row" if isinstance(rows, Mapping) else f"{str(rows)[:80]!r}"
            raise UserError(f"rows are many, and {kind} was given", "of one row: [row]; of a file: open(path)")
        self._items = _read_rows(reader, rows, on_bad)
        self._lock = asyncio.Lock()

    async def take(self) -> Task | None:
        async with self._lock:
            return await anext(self._items, None)


async def _read_rows(reader: TaskReader, rows: Rows, on_bad: Callable[[Problem], None]) -> AsyncIterator[Task]:
    number = 0
    async for row in _as_async(rows):
        number += 1
        if is_blank(row):
            continue
        for item in reader.read([row_to_line(row, "rows", number)]):
            if isinstance(item, Task):
                yield item
            else:
                on_bad(item)


async def _as_async(rows: Rows) -> AsyncIterator[object]:
    if isinstance(rows, AsyncIterable):
        async for row in rows:
            yield row
    else:
        for row in rows:
            yield row


def _batches(items: Iterator[Task | Problem], *, eager: bool) -> Iterator[list[Task | Problem]]:
    """A large first batch, small ones after it; a batch that holds much text is shorter."""
    batch: list[Task | Problem] = []
    size, rows, room = 0, _FIRST, _FIRST_BYTES
    for item in items:
        batch.append(item)
        size += len(item.raw) if isinstance(item, Task) else 0
        if eager or len(batch) >= rows or size >= room:
            yield batch
            batch, size, rows, room = [], 0, _BATCH, _BATCH_BYTES
    yield batch

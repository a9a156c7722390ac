"""Tasks that several collectors share: leased by number, taken up again when a lease ends, ended once on the disk.

What this collector holds and what Redis thinks it holds are compared at every heartbeat, so that a lost answer loses
no task.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from gym.collect.fair_queue import FairQueue
from gym.collect.queue.queue_options import QueueView
from gym.collect.queue.redis_queue import How, Leased, RedisQueue
from gym.collect.queue.task_cursor import TaskCursor
from gym.collect.task_reader import Task
from gym.errors import GymError, Problem, first_error
from gym.http.redis_link import RedisGone

T = TypeVar("T")
BEATS = 3  # within a lease
_AHEAD = 16  # tasks that wait here for a worker, at most
_LOOK_SECONDS = 0.5  # between two looks whether a task has come back
_RATE_SECONDS = 30.0
_END_SECONDS = 5.0

Items = Iterator[tuple[Task, bool] | Problem]


@dataclass(slots=True)
class Scanned:
    """What one pass over the input showed."""

    total: int = 0
    done: list[int] = field(default_factory=list)  # numbers of tasks that this collector's files hold
    digest: str = ""  # over the keys of all tasks


@dataclass(slots=True)
class _LeasedTask:
    """A task that Redis has leased to this collector."""

    number: int
    ids: list[str] = field(default_factory=list)
    ended: How | None = None  # reported to Redis once its line is on the disk


class QueueFeed:
    """`start` it, keep it with `keep` beside the workers, and tell it with `settle` how each task ended."""

    def __init__(
        self,
        queue: RedisQueue,
        scan: Callable[[], Items],
        cursor: TaskCursor,
        join: Callable[[Scanned], Awaitable[None]],
        on_problem: Callable[[Problem], bool],
        on_notice: Callable[[str, bool], None],
        *,
        workers: int,
        lease: float,
        max_pause: float,
    ) -> None:
        self._queue, self._scan_items, self._cursor, self._join = queue, scan, cursor, join
        self._on_problem, self._on_notice = on_problem, on_notice
        self._workers, self._lease, self._max_pause = workers, lease, max_pause
        self._waiting = FairQueue()
        self._arrived = asyncio.Event()
        self._asking = 0  # workers that wait for a task
        self._leased: dict[int, _LeasedTask] = {}  # by number
        self._mine = bytearray()  # a bit for each task that this collector's files hold
        self._numbers: dict[str, int] = {}  # of leased tasks, by key
        self._lines: dict[Path, list[tuple[int, int]]] = {}  # by file: heaps of (line, number)
        self._to_tell: set[int] = set()
        self._tell = asyncio.Event()
        self._wanted = asyncio.Event()
        self._link = asyncio.Lock()  # one question at a time: an answer is dealt with before the next is asked
        self._take_over_at = 0.0
        self._closed = False
        self._left = False  # no one keeps it any more
        self._rates: deque[tuple[float, int]] = deque()
        self.paused_reason = ""
        self.error: GymError | None = None
        self.exhausted = False  # every task of the queue has ended
        self._collectors = 1
        self.view = QueueView()

    async def start(self) -> None:
        """Returns when the input was read once, and the queue knows what this collector's files hold."""
        loop = asyncio.get_running_loop()
        scanned = await asyncio.to_thread(self._scan, loop)
        if self._closed or not scanned.total:
            self.exhausted = not scanned.total and not self._closed
            return
        self._mine = bytearray(scanned.total // 8 + 1)
        for number in scanned.done:
            self._mine[number // 8] |= 1 << number % 8
        await self._join(scanned)
        await self._queue.settle(("", number, "done") for number in scanned.done)
        self._see(await self._queue.enter())
        up = await self._queue.seconds_up()
        self._take_over_at = time.monotonic() + max(self._lease - up, 0.0)
        if warning := await self._queue.warn():
            self._on_notice(warning, False)

    async def take(self) -> Task | None:
        """The next task; None when there is none left for anyone."""
        self._asking += 1
        self._wanted.set()
        try:
            while not self._waiting.rows:
                if self._over:
                    return None
                self._arrived.clear()
                await self._arrived.wait()
            return self._waiting.take()
        finally:
            self._asking -= 1

    def finish(self, task: Task) -> None:
        self._waiting.finish(task)

    def settle(self, task: Task, how: How, file: Path | None = None, line: int = 0) -> None:
        """How a task ended, and the line that must be on the disk before the others are notified."""
        number = self._numbers.pop(task.key)
        self._leased[number].ended = how
        if how == "done":
            self._mine[number // 8] |= 1 << number % 8
        if file:
            heapq.heappush(self._lines.setdefault(file, []), (line, number))
        else:
            self._plan_to_tell(number)

    def on_disk(self, file: Path, lines: int) -> None:
        waiting = self._lines.get(file, [])
        while waiting and waiting[0][0] <= lines:
            self._plan_to_tell(heapq.heappop(waiting)[1])

    async def keep(self) -> None:
        """Claims, tells and holds the leases, until the queue has ended. Runs beside the workers."""
        try:
            async with asyncio.TaskGroup() as group:
                for work in (self._claim_all(), self._tell_all(), self._beat_all()):
                    group.create_task(work)
                try:
                    await asyncio.Event().wait()
                finally:
                    self._left = True
        except* GymError as errors:
            self._end(first_error(errors))

    def close(self) -> None:
        """No more tasks from now on."""
        self._closed = True
        self._waiting.clear()
        self._wanted.set()
        self._arrived.set()

    async def aclose(self) -> None:
        """Tells what is on the disk, and gives back what was not begun."""
        self.close()
        if self._queue.token and self.error is None:
            with suppress(GymError, TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await self._tell_now()
                    await self._queue.release(id for one in self._leased.values() for id in one.ids)
        await self._queue.aclose()

    @property
    def eta_seconds(self) -> float | None:
        if len(self._rates) < 2:
            return None
        (since, then), (now, left) = self._rates[0], self._rates[-1]
        return left * (now - since) / (then - left) if then > left else None

    @property
    def _over(self) -> bool:
        return self._closed or self.exhausted or self.error is not None

    # Beside the workers.

    async def _claim_all(self) -> None:
        ahead = min(_AHEAD, max(1, self._workers // 4))
        while not self._over:
            room = self._asking + ahead - self._waiting.rows
            if room <= ahead // 2:
                self._wanted.clear()
                await self._wanted.wait()
                continue
            if not await self._ask(partial(self._claim, room)):
                await asyncio.sleep(min(_LOOK_SECONDS, self._lease / 4))

    async def _claim(self, room: int) -> bool:
        """Whether any came."""
        view, found = await self._queue.claim(room, take_over=time.monotonic() >= self._take_over_at)
        self._see(view)
        if not view.left:
            self.exhausted = True
            self._arrived.set()
        return await self._take_up(found)

    async def _tell_all(self) -> None:
        while True:
            await self._tell.wait()
            self._tell.clear()
            await self._ask(self._tell_now)

    async def _tell_now(self) -> None:
        ended = [
            (id, number, self._leased[number].ended or "done") for number in self._to_tell for id in self._ids(number)
        ]
        if not ended:
            return
        view = await self._queue.settle(ended)
        for _, number, _how in ended:
            self._leased.pop(number, None)
        self._to_tell.difference_update(number for _, number, _how in ended)
        if view is not None:
            self._see(view)

    async def _beat_all(self) -> None:
        while True:
            await self._ask(self._beat)
            await asyncio.sleep(self._lease / BEATS)

    async def _beat(self) -> None:
        view, found = await self._queue.beat()
        self._see(view)
        self._collectors = await self._queue.collectors()
        await self._take_up(found)

    async def _take_up(self, found: list[Leased]) -> bool:
        """What Redis says is this collector's. A task that its files hold is reported again: Redis has lost it."""
        new = []
        for id, number in found:
            leased = self._leased.get(number)
            if leased is None:
                leased = self._leased[number] = _LeasedTask(number)
                if self._is_mine(number):
                    leased.ended = "done"
                    self._plan_to_tell(number)
                else:
                    new.append(number)
            if id not in leased.ids:
                leased.ids.append(id)
        if new:
            for number, task in zip(sorted(new), await asyncio.to_thread(self._cursor.find, new), strict=True):
                self._numbers[task.key] = number
                self._waiting.put(task)
            if self._closed:
                self._waiting.clear()
            self._arrived.set()
        return bool(found)

    async def _ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """Asks until Redis answers, for as long as the user allows a pause."""
        since = 0.0
        while True:
            try:
                async with self._link:
                    answer = await question()
                if self._left:  # the client of Redis may take a cancellation for a timeout of its own
                    raise asyncio.CancelledError
            except RedisGone as error:
                if self._left:
                    raise asyncio.CancelledError from None
                now = time.monotonic()
                since = since or now
                self._take_over_at = now + self._lease + _LOOK_SECONDS  # the others' heartbeats are late as well
                if not self.paused_reason:
                    self.paused_reason = f"{error.what}; rollouts under way go on"
                    self._on_notice(f"paused: {self.paused_reason}", True)
                if now - since > self._max_pause:
                    raise
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            if self.paused_reason:
                self.paused_reason = ""
                self._take_over_at = time.monotonic() + self._lease
                self._on_notice("the queue answers again", False)
            return answer

    # Small things.

    def _end(self, error: BaseException) -> None:
        self.error = error if isinstance(error, GymError) else None
        self._waiting.clear()
        self._arrived.set()

    def _plan_to_tell(self, number: int) -> None:
        self._to_tell.add(number)
        self._tell.set()

    def _ids(self, number: int) -> list[str]:
        return self._leased[number].ids

    def _is_mine(self, number: int) -> bool:
        return bool(self._mine[number // 8] >> number % 8 & 1)

    def _see(self, view: QueueView) -> None:
        self.view = replace(view, collectors=self._collectors)
        now = time.monotonic()
        self._rates.append((now, view.left))
        while len(self._rates) > 2 and now - self._rates[0][0] > _RATE_SECONDS:
            self._rates.popleft()

    def _scan(self, loop: asyncio.AbstractEventLoop) -> Scanned:
        """In a thread."""
        scanned, digest = Scanned(), hashlib.blake2b(digest_size=16)
        for item in self._scan_items():
            if self._closed:
                return scanned
            if isinstance(item, Problem):
                loop.call_soon_threadsafe(self._report, item)
                continue
            task, done = item
            digest.update(task.key.encode() + b"\n")
            if done:
                scanned.done.append(scanned.total)
            scanned.total += 1
        scanned.digest = digest.hexdigest()
        return scanned

    def _report(self, problem: Problem) -> None:
        if not self._on_problem(problem):
            self.close()

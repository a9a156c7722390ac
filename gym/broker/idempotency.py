"""A request that is sent twice runs once: its reply is stored under its id, and a retry gets the same reply."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from gym.broker.background import BackgroundTasks
from gym.broker.errors import Conflict, RequestRefused, RetryLater, forget_frames
from gym.wire.failures import RolloutError

KEPT_SECONDS = 900.0
KEPT_BYTES = 64 << 20  # of replies; beyond it the oldest leave their id alone behind
KEPT_IDS = 200_000
Key = tuple[str, ...]


class _RunningRequest(NamedTuple):
    digest: bytes
    task: asyncio.Task[bytes]


class _StoredReply(NamedTuple):
    asked: _RunningRequest
    ended: float
    size: int


class IdempotentRequests:
    def __init__(self, tasks: BackgroundTasks, clock: Callable[[], float] = time.monotonic) -> None:
        self._tasks = tasks
        self._clock = clock
        self._running: dict[Key, _RunningRequest] = {}
        self._kept: OrderedDict[Key, _StoredReply] = OrderedDict()  # in the order in which they ended
        self._spent: OrderedDict[Key, None] = OrderedDict()
        self._bytes = 0
        self.joined = 0

    def knows(self, key: Key) -> bool:
        return key in self._running or key in self._kept or key in self._spent

    async def run(self, key: Key, body: bytes, work: Callable[[], Coroutine[Any, Any, bytes]]) -> bytes:
        """The work goes on when the caller leaves. A request that never started (busy, unavailable) may be retried."""
        digest = hashlib.sha256(body).digest()
        if key in self._spent:
            raise Conflict(f"request {key[-1]!r} has run, and its reply is no longer kept", retryable=True)
        kept = self._kept.get(key)
        asked = kept.asked if kept is not None else self._running.get(key)
        if asked is None:
            asked = _RunningRequest(digest, self._tasks.spawn(work(), f"request {key[-1]}"))
            self._running[key] = asked
            asked.task.add_done_callback(lambda done: self._settle(key, done))
        else:
            self.joined += 1
        if asked.digest != digest:
            raise RequestRefused(
                f"the request id {key[-1]!r} was used for another request: an id is for retries of one request", 422
            )
        try:
            return await asyncio.shield(asked.task)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise  # this caller was cancelled, not the work
            raise RolloutError("cancelled", f"request {key[-1]!r} was cancelled") from None

    def take_back(self, key: Key) -> bool:
        """Cancels it, if it runs; it is not run again."""
        asked = self._running.get(key)
        return asked is not None and asked.task.cancel()

    def _settle(self, key: Key, task: asyncio.Task[bytes]) -> None:
        asked = self._running.pop(key)
        if task.cancelled():
            self._spend(key)
            return
        error = task.exception()
        if isinstance(error, RetryLater):
            return
        if error is not None:
            forget_frames(error)
        size = len(task.result()) if error is None else 500
        self._kept[key] = _StoredReply(asked, self._clock(), size)
        self._bytes += size
        self._expire()

    def _expire(self) -> None:
        oldest = self._clock() - KEPT_SECONDS
        while self._kept:
            key, stored = next(iter(self._kept.items()))
            if stored.ended >= oldest and self._bytes <= KEPT_BYTES and len(self._kept) <= KEPT_IDS:
                break
            del self._kept[key]
            self._bytes -= stored.size
            self._spend(key)

    def _spend(self, key: Key) -> None:
        self._spent[key] = None
        if len(self._spent) > KEPT_IDS:
            self._spent.popitem(last=False)

"""A stream for programs without an event loop. It lives in a thread, so collecting goes on while the trainer trains."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, Self, TypeVar

import uvloop

from gym.errors import UserError
from gym.trainers.group_options import GroupOptions
from gym.trainers.groups import RolloutGroup
from gym.trainers.stream import Given, GroupStream, StreamStats

T = TypeVar("T")


class SyncGroupStream:
    """`with SyncGroupStream(url, rows, options) as groups: for group in groups`; the words of `GroupStream`."""

    def __init__(
        self,
        url: str,
        rows: Given,
        options: GroupOptions | Mapping[str, Any] | None = None,
        *,
        agent: str = "",
        token: str = "",
    ) -> None:
        self._stream = GroupStream(url, rows, options, agent=agent, token=token)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._serve, name="gym-groups", daemon=True)
        self._ready = threading.Event()
        self._over: asyncio.Event | None = None
        self._closing = threading.Lock()
        self._is_open = False

    def __enter__(self) -> Self:
        if self._thread.ident is not None:
            raise UserError("this stream was opened before", "make another one: it begins with the first row")
        self._thread.start()
        self._ready.wait()
        self._is_open = True
        try:
            self._ask(self._stream.__aenter__())
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """From any thread: a waiter for a group gets an error."""
        with self._closing:
            was_open, self._is_open = self._is_open, False
            if was_open and self._loop is not None and self._over is not None:
                self._loop.call_soon_threadsafe(self._over.set)
        if self._thread.ident is not None:
            self._thread.join()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RolloutGroup:
        found = self.take(1)
        if not found:
            raise StopIteration
        return found[0]

    def take(self, count: int) -> list[RolloutGroup]:
        """A batch: so many groups as they get ready, fewer only at the end."""
        return self._ask(self._stream.take(count))

    @property
    def version(self) -> int:
        return self._call(lambda: self._stream.version)

    def set_version(self, version: int) -> None:
        self._call(lambda: self._stream.set_version(version))

    def pause(self) -> None:
        self._call(self._stream.pause)

    def drain(self, timeout: float | None = None) -> int:
        return self._ask(self._stream.drain(timeout))

    def resume(self, version: int | None = None) -> None:
        self._call(lambda: self._stream.resume(version))

    def call_off(self) -> int:
        return self._call(self._stream.call_off)

    def set_weights(self, weights: Mapping[str, float]) -> None:
        self._call(lambda: self._stream.set_weights(weights))

    def stats(self) -> StreamStats:
        return self._call(self._stream.stats)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._run_stream())

    async def _run_stream(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._over.wait()
        await self._stream.aclose()

    def _call(self, work: Callable[[], T]) -> T:
        async def call() -> T:
            return work()

        return self._ask(call())

    def _ask(self, work: Coroutine[Any, Any, T]) -> T:
        with self._closing:  # what is asked before it closes is answered, if only with that
            if not self._is_open or self._loop is None:
                work.close()
                raise UserError("this stream is not open", "use it so: with SyncGroupStream(...) as groups")
            waiting: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waiting.result()
        except CancelledError:
            raise UserError("this stream was closed meanwhile", "open another one") from None
        except BaseException:
            waiting.cancel()  # Ctrl-C: no caller waits any more
            raise

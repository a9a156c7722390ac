"""Appends whole lines: one thread writes, one write a batch; another has them on the disk within a second.

When a write fails, the file is cut back to its last whole line, so that a resume can go on.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from gym.errors import InfraError
from gym.wire.pieces import Body, Piece, body_size

_GATHER_SECONDS = 0.02  # lines that come within this share a write
_SYNC_SECONDS = 1.0
_MAX_PIECES = 512  # of one write; the kernel takes 1,024
_MAX_WAITING = 16 << 20  # bytes; beyond it workers wait for the disk

_sync = getattr(os, "fdatasync", os.fsync)


class Sink:
    """Lines for one file. `close` returns when all of them are on the disk.

    `on_disk` is called with how many of them are there already, as often as that grows.
    """

    def __init__(
        self,
        path: Path,
        descriptor: int,
        on_error: Callable[[InfraError], None],
        on_disk: Callable[[Path, int], None] | None = None,
    ) -> None:
        self.path = path
        self._descriptor = descriptor
        self._on_error = on_error
        self._on_disk = on_disk
        self._put = self._appended = 0  # lines
        self._loop = asyncio.get_running_loop()
        self._guard = threading.Lock()
        self._lines: list[Body] = []
        self._waiting = 0
        self._arrived = threading.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = threading.Event()
        self._dirty = threading.Event()
        self._written = threading.Event()  # all of it, or as much as was possible
        self.error: InfraError | None = None
        self._threads = [
            threading.Thread(target=run, name=f"gym-collect-{path.name}", daemon=True)
            for run in (self._write_all, self._sync_all)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def is_full(self) -> bool:
        return not self._room.is_set()

    def put(self, line: Body) -> int:
        """The number of the line, from 1. Where it is full then, a caller that has more waits: `wait_for_room`."""
        with self._guard:
            self._lines.append(line)
            self._put = number = self._put + 1
            self._waiting += body_size(line)
            full = self._waiting > _MAX_WAITING
            first = len(self._lines) == 1
        if first:
            self._arrived.set()
        if full:
            self._room.clear()
        return number

    async def wait_for_room(self) -> None:
        await self._room.wait()

    async def aclose(self) -> None:
        self._closed.set()
        self._arrived.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    # In the threads.

    def _write_all(self) -> None:
        try:
            while not (self._closed.is_set() and not self._lines):
                self._arrived.wait()
                self._closed.wait(_GATHER_SECONDS)
                if self._write_batch():
                    self._dirty.set()
        except OSError as error:
            self._fail(error)
        finally:
            self._written.set()
            self._dirty.set()

    def _sync_all(self) -> None:
        """Apart from the writing, so that lines do not pile up in memory while a disk is slow."""
        try:
            over = False
            while not over:
                self._dirty.wait()
                over = self._written.is_set()
                self._dirty.clear()
                began, appended = time.monotonic(), self._appended
                _sync(self._descriptor)
                if self._on_disk is not None:
                    self._call_loop(self._on_disk, self.path, appended)
                self._written.wait(max(_SYNC_SECONDS - (time.monotonic() - began), 0.0))
        except OSError as error:
            self._fail(error)

    def _write_batch(self) -> bool:
        with self._guard:
            lines, self._lines, self._waiting = self._lines, [], 0
            self._arrived.clear()
            if self._closed.is_set():
                self._arrived.set()
        if lines:
            append_whole(self._descriptor, _to_pieces(lines))
            self._appended += len(lines)
            self._call_loop(self._room.set)
        return bool(lines)

    def _fail(self, error: OSError) -> None:
        if self.error is not None:
            return
        self.error = InfraError(
            f"cannot write to {self.path}: {error.strerror or error}; the lines in it are whole",
            "make room and run the same command: it resumes where it stopped",
        )
        self._call_loop(self._on_error, self.error)

    def _call_loop(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed, so the run has ended
            return


def append_whole(descriptor: int, pieces: Sequence[Piece]) -> None:
    """All of them, or on an error as many whole lines as went."""
    start, written = os.fstat(descriptor).st_size, 0
    left = deque(memoryview(one) for one in pieces)
    try:
        while left:
            count = os.writev(descriptor, list(islice(left, _MAX_PIECES)))
            written += count
            while left and count >= len(left[0]):
                count -= len(left.popleft())
            if count:
                left[0] = left[0][count:]
    except OSError:
        os.ftruncate(descriptor, start + b"".join(pieces).rfind(b"\n", 0, written) + 1)
        raise


def _to_pieces(lines: Iterable[Body]) -> list[Piece]:
    """Short lines as one, and those in pieces as they are."""
    pieces: list[Piece] = []
    short: list[bytes] = []
    for line in lines:
        if isinstance(line, bytes):
            short.append(line)
        else:
            pieces += (b"".join(short), *line)
            short = []
    return [*pieces, b"".join(short)]

"""A command at work on a stack says so for as long as it lives; what it took out of the routes comes back when it dies.

The console reads this beside what is wanted, and goes on by itself when the command dies.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gym.wire.wanted import BEAT_SECONDS, Work, write_work


class Working:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._leaving: tuple[str, ...] = ()
        self._lock = threading.Lock()
        self._over = threading.Event()

    def leave(self, names: Iterable[str]) -> None:
        """These containers, and no others, get no new requests from now on."""
        self._leaving = tuple(sorted(names))
        self._tell()

    def beat(self) -> None:
        """Until `end`."""
        while not self._over.wait(BEAT_SECONDS):
            self._tell()

    def end(self) -> None:
        self._over.set()
        with self._lock:
            write_work(self._folder, Work())

    def _tell(self) -> None:
        with self._lock:
            if not self._over.is_set():
                write_work(self._folder, Work(beat=time.time_ns(), leaving=self._leaving))


@contextmanager
def working(folder: Path) -> Iterator[Working]:
    work = Working(folder)
    work.leave(())
    beat = threading.Thread(target=work.beat, name="beat", daemon=True)
    beat.start()
    try:
        yield work
    finally:
        work.end()
        beat.join()

"""A command at work on a stack says so for as long as it lives; what it took out of the routes comes back when it dies.

The console reads this beside what is wanted, and goes on by itself when the command dies.
Compose outlives a command that is killed, and finishes what it began: the next one waits for its end, for two at once
remove each other's containers.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gym.errors import InfraError
from gym.wire.wanted import BEAT_SECONDS, Work, write_work

FINISH_SECONDS: Final = 120.0  # a Compose that takes longer pulls an image, or hangs
LOOK_SECONDS: Final = 0.1


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


@contextmanager
def alone_with_compose(lock: Path, project: str, seconds: float = FINISH_SECONDS) -> Iterator[int]:
    """No Compose of an earlier command is at work. An heir of the descriptor holds the lock until it ends."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _wait_for_lock(descriptor, project, seconds)
        yield descriptor
    finally:
        os.close(descriptor)


def wait_for_compose(lock: Path, project: str, seconds: float = FINISH_SECONDS) -> None:
    with alone_with_compose(lock, project, seconds):
        pass


def _wait_for_lock(descriptor: int, project: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise InfraError(
                    f"`docker compose`, begun by a command that was cut off, has been at work for {seconds:g} s more.",
                    f"Wait for it, or see what it does and end it: pgrep -af {project}",
                ) from None
            time.sleep(LOOK_SECONDS)
        else:
            return

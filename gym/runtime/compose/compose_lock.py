"""Compose outlives a command that is killed, and finishes what it began: the next one waits for its end.

Two at once would remove each other's containers.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gym.errors import InfraError

FINISH_SECONDS: Final = 120.0  # a Compose that takes longer pulls an image, or hangs
LOOK_SECONDS: Final = 0.1


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

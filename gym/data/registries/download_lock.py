"""A lock for each file that is downloaded: a second process waits, and then finds the file there."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gym.errors import UserError


@contextmanager
def alone_with(destination: Path) -> Iterator[None]:
    """No other process fetches `destination` meanwhile. The lock's file is gone afterwards."""
    if destination.is_dir():
        raise UserError(f"{destination} is a folder", "name a file in it")
    destination.parent.mkdir(parents=True, exist_ok=True)
    path = destination.with_name(f".{destination.name}.lock")
    file = _locked(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        file.close()


def _locked(path: Path) -> BinaryIO:
    """The previous holder may have removed the file: then no other process sees this lock, and it is taken again."""
    while True:
        file = path.open("ab")
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
            if path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno())):
                return file
        except FileNotFoundError:
            pass
        except BaseException:
            file.close()
            raise
        file.close()

"""Files that are written whole or not at all, however large: beside, then renamed, by one process at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gym.errors import UserError


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """What is written takes `path`'s place when the block ends well; else `path` stays what it was."""
    if path.is_dir():
        raise UserError(f"{path} is a folder", "name a file in it")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    with beside.open("ab") as file:
        _lock(file, path)
        file.truncate(0)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


def refuse_inputs(outputs: Iterable[Path], inputs: Iterable[str]) -> None:
    """No command reads a file and puts another one in its place."""
    there = [path for path in outputs if path.exists()]
    for given in inputs:
        if any(Path(given).exists() and path.samefile(given) for path in there):
            raise UserError(f"{given} would be read and written", "name another output with -o")


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{path} is being written by another command", "wait for it, or name another output") from None

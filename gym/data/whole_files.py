"""Files that are written whole or not at all, however large: beside, then renamed, by one process at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from gym.data.file_kinds import PACKED, packed_suffix
from gym.errors import UserError

_LINES = (".jsonl", ".json")
_TABLES = (".parquet", ".arrow", ".csv", ".tsv")


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """What is written takes `path`'s place when the block ends without an error; else `path` stays what it was."""
    with WholeFiles() as files:
        yield files.open(path)


class WholeFiles:
    """Several files of which each is written whole, and none is replaced before all of them are on the disk."""

    def __init__(self) -> None:
        self._open: dict[Path, tuple[Path, BinaryIO]] = {}
        self._closing = ExitStack()

    def __enter__(self) -> WholeFiles:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._closing:
            try:
                if kind is None:
                    self._replace()
            finally:
                for beside, _file in self._open.values():
                    beside.unlink(missing_ok=True)

    def open(self, path: Path) -> BinaryIO:
        if path.is_dir():
            raise UserError(f"{path} is a folder", "name a file in it")
        beside = path.with_name(f".{path.name}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = self._closing.enter_context(beside.open("ab"))
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror}", "name another output") from None
        _lock(file, path)
        file.truncate(0)
        self._open[path] = beside, file
        return file

    def _replace(self) -> None:
        for _, file in self._open.values():
            file.flush()
            os.fsync(file.fileno())
        while self._open:
            path, (beside, _) = self._open.popitem()
            beside.replace(path)


def refuse_inputs(outputs: Iterable[Path], inputs: Iterable[str]) -> None:
    """No command reads a file and puts another one in its place."""
    there = [path for path in outputs if path.exists()]
    for given in inputs:
        if any(Path(given).exists() and path.samefile(given) for path in there):
            raise UserError(f"{given} would be read and written", "name another output with -o")


def refuse_other_form(path: Path, *, table: bool = False) -> None:
    """A name that says what the file is not: what is written is JSON lines, or a Parquet table, and never packed."""
    if not path.name:  # as `.` has none
        raise UserError(f"{path} is a folder", "name a file in it")
    name = path.name.lower()
    if packed := packed_suffix(name, PACKED):
        raise UserError(f"{path}: the file is written unpacked", f"give a name without {packed}, pack it afterwards")
    if table and name.endswith((*_LINES, *_TABLES[1:])):
        kind = "JSON" if name.endswith(_LINES) else name.rpartition(".")[2]
        raise UserError(f"{path}: the file is a Parquet table, not {kind}", "give a name that ends with .parquet")
    if not table and name.endswith(_TABLES):
        kind = "a Parquet table" if name.endswith(".parquet") else name.rpartition(".")[2]
        raise UserError(f"{path}: the file is JSON lines, not {kind}", "give a name that ends with .jsonl")


def refuse_file_name(folder: Path) -> None:
    """Of a folder that is made where there is none: a file's name says that a file was meant."""
    end = folder.suffix.lower()
    if (packed_suffix(end, PACKED) or end in (*_LINES, *_TABLES)) and not folder.is_dir():
        raise UserError(f"{folder}: several files are written, into a folder", f"give a name without {folder.suffix}")


def _lock(file: BinaryIO, path: Path) -> None:
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{path} is being written by another command", "wait for it, or name another output") from None

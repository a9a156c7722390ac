"""`.NAME.jsonl.index` beside a file of rollouts: its columns, so that a large file opens without being read.

Blocks are appended while the file grows. A block that is torn or does not fit ends what counts; an index that does
not fit its file is rewritten. Where it cannot be written, or another process writes it, the columns are kept in
memory alone: a reader never needs it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import sys
import zlib
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from gym.console.viewer.columns import TYPES, Columns
from gym.console.viewer.facts import NO_NUMBER
from gym.files import write_at

MAGIC: Final = b"gym rollout index 1 "
_FRAME: Final = struct.Struct("<4sIQI")  # mark, bytes of the head, bytes of the body, checksum of both
_MARK: Final = b"GIBK"
_TOKEN = 16
_SHAPE: Final = orjson.dumps([sys.byteorder, [[name, code, array(code).itemsize] for name, code in TYPES.items()]])


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a file was read when a block was written."""

    end: int = 0
    lines: int = 0  # as an editor counts them
    size: int = 0
    mtime: int = 0
    head: str = ""


@dataclass(slots=True)
class StoredIndex:
    columns: Columns = field(default_factory=Columns)
    extent: Extent = Extent()


class LineIndex:
    def __init__(self, path: Path) -> None:
        self.path = path.with_name(f".{path.name}.index")
        self._data = path
        self._token = b""  # of the file that we know; empty: the next block begins a new one
        self._size = 0  # of that file, and what stands behind it torn
        self._torn = 0
        self._rows = self._texts = 0  # in it
        self._off = False

    def load(self) -> StoredIndex | None:
        """What is there, checked by itself; whether it fits the file of rollouts is for the caller to see."""
        self.forget()
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            return None
        with os.fdopen(descriptor, "rb") as stream:
            if not self._read_head(stream):
                return None
            found = StoredIndex()
            while block := _read_block(stream):
                if not _add_block(found, *block):
                    break
                self._size = stream.tell()
            self._torn = os.fstat(descriptor).st_size - self._size
        self._rows, self._texts = len(found.columns), len(found.columns.texts)
        return found if self._rows and found.columns.is_sound() else None

    def forget(self) -> None:
        """What was loaded does not fit: the next block starts over."""
        self._token, self._size, self._torn = b"", 0, 0
        self._rows = self._texts = 0

    def save(self, columns: Columns, extent: Extent) -> None:
        """Append the lines that are not in it yet."""
        if self._off or len(columns) == self._rows:
            return
        try:
            mode = self._data.stat().st_mode & 0o666
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(self.path, flags, mode)
        except OSError:
            self._off = True
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._append(descriptor, columns, extent)
        except BlockingIOError:
            pass  # another viewer writes: the next look retries, and then sees whether it is in the way
        except OSError:
            self._off = True
        finally:
            os.close(descriptor)

    def _append(self, descriptor: int, columns: Columns, extent: Extent) -> None:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            self._off = True
            return
        if not self._token:
            self._begin(descriptor)
        elif not self._is_ours(descriptor):
            self._off = True
            return
        os.ftruncate(descriptor, self._size)
        block = _make_block(columns, self._rows, self._texts, extent)
        try:
            write_at(descriptor, block, self._size)
        except OSError:
            os.ftruncate(descriptor, self._size)
            raise
        self._size += len(block)
        self._torn, self._rows, self._texts = 0, len(columns), len(columns.texts)

    def _begin(self, descriptor: int) -> None:
        head = MAGIC + _SHAPE + b"\n"
        self._token = os.urandom(_TOKEN)
        os.ftruncate(descriptor, 0)
        write_at(descriptor, head + self._token, 0)
        self._size, self._torn = len(head) + _TOKEN, 0
        self._rows = self._texts = 0

    def _is_ours(self, descriptor: int) -> bool:
        """Whether it is unchanged since."""
        token = os.pread(descriptor, _TOKEN, len(MAGIC) + len(_SHAPE) + 1)
        return token == self._token and os.fstat(descriptor).st_size == self._size + self._torn

    def _read_head(self, stream: BinaryIO) -> bool:
        head = MAGIC + _SHAPE + b"\n"
        if stream.read(len(head)) != head:
            return False
        self._token = stream.read(_TOKEN)
        self._size = stream.tell()
        return len(self._token) == _TOKEN


def _make_block(columns: Columns, begin: int, known: int, extent: Extent) -> bytes:
    """The lines from `begin`, and the texts from number `known`."""
    before = columns.title_ends[begin - 1] if begin else 0
    head = orjson.dumps(
        {
            "rows": [begin, len(columns)],
            "extent": [extent.end, extent.lines, extent.size, extent.mtime, extent.head],
            "texts": [known, columns.texts[known:]],
            "components": list(columns.components),
            "hops": list(columns.hops),
            "more": columns.more_components,
        }
    )
    arrays = [*(columns.column(name) for name in TYPES), *columns.components.values(), *columns.hops.values()]
    body = b"".join([*(one[begin:].tobytes() for one in arrays), bytes(columns.titles[before:])])
    return _FRAME.pack(_MARK, len(head), len(body), zlib.crc32(body, zlib.crc32(head))) + head + body


def _read_block(stream: BinaryIO) -> tuple[dict[str, Any], memoryview] | None:
    frame = stream.read(_FRAME.size)
    if len(frame) < _FRAME.size:
        return None
    mark, head_size, body_size, check = _FRAME.unpack(frame)
    left = os.fstat(stream.fileno()).st_size - stream.tell()
    if mark != _MARK or head_size + body_size > left:
        return None
    head, body = stream.read(head_size), stream.read(body_size)
    if zlib.crc32(body, zlib.crc32(head)) != check:
        return None
    return orjson.loads(head), memoryview(body)


def _add_block(found: StoredIndex, head: dict[str, Any], body: memoryview) -> bool:
    """False, and nothing of it taken, where it does not continue what came before."""
    columns, (begin, end) = found.columns, head["rows"]
    known, texts = head["texts"]
    if begin != len(columns) or known != len(columns.texts):
        return False
    count, at = end - begin, 0
    for text in texts:
        columns.names.number(text)
    columns.more_components = head["more"]
    for group, names in ((columns.components, head["components"]), (columns.hops, head["hops"])):
        for name in names:
            group.setdefault(name, array("d", (NO_NUMBER,)) * begin)
    for one in (*(columns.column(name) for name in TYPES), *columns.components.values(), *columns.hops.values()):
        size = count * one.itemsize
        one.frombytes(body[at : at + size])
        at += size
    columns.titles += body[at:]
    found.extent = Extent(*head["extent"])
    return True

"""One file of rollouts: where each line is, and its facts as columns; the text stays on the disk.

Lines that were appended since the last look are read on the next one; a file that was replaced is read again.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import BinaryIO

from gym.console.viewer.columns import Columns
from gym.console.viewer.facts import MALFORMED, Facts, read_facts

MAX_LINE = 256 << 20  # what is longer is no rollout, and is not held in memory
_BUFFER = 1 << 20
_HEAD = 256  # bytes by which a file is recognised
_TAIL = 256  # bytes by which a line is


class LineFile:
    """`columns` and `end` change on `refresh` alone."""

    def __init__(self, path: Path, *, failed: bool = False) -> None:
        self.path = path
        self.failed = failed
        self._clear()

    def _clear(self) -> None:
        self.columns = Columns()
        self.end = 0  # of the last line that was read
        self.size = 0  # of the file when it was last looked at
        self.torn = 0  # bytes of a last line that is not whole (yet)
        self._lines = 0
        self._inode = 0
        self._mtime = 0
        self._head = b""
        self._open_line = False  # the last line was whole JSON without its newline

    def __len__(self) -> int:
        return len(self.columns)

    @property
    def behind(self) -> int:
        """Bytes that are still to be read."""
        return max(0, self.size - self.end - self.torn)

    def refresh(self, limit: int | None = None) -> bool:
        """Read what is new, about `limit` bytes; True when something is. A file that is gone is an empty one."""
        before = (self._inode, self.end, self.torn)
        try:
            stream = self.path.open("rb", buffering=_BUFFER)
        except FileNotFoundError:
            self._clear()
            return before != (0, 0, 0)
        with stream:
            status = os.fstat(stream.fileno())
            if status.st_ino != self._inode or not self._fits(stream, status):
                self._clear()
            self.size = status.st_size
            if status.st_size != self.end + self.torn or not self.end:
                self._read(stream, limit)
            self._head = self._head or os.pread(stream.fileno(), min(_HEAD, self.end), 0)
            self._inode, self._mtime = status.st_ino, status.st_mtime_ns
        return before != (self._inode, self.end, self.torn)

    def read(self, index: int) -> bytes:
        """The line itself, as it is on the disk now."""
        with self.path.open("rb", buffering=0) as stream:
            return self.read_from(stream.fileno(), index)

    def read_from(self, descriptor: int, index: int) -> bytes:
        return os.pread(descriptor, self.columns.lengths[index], self.columns.offsets[index])

    def _fits(self, stream: BinaryIO, status: os.stat_result) -> bool:
        """Whether what was read is still what the file begins with."""
        if status.st_size < self.end:
            return False
        if (status.st_size, status.st_mtime_ns) == (self.size, self._mtime) or not len(self):
            return True
        return self._head == os.pread(stream.fileno(), len(self._head), 0) and self.is_line(
            stream.fileno(), len(self) - 1
        )

    def is_line(self, descriptor: int, index: int) -> bool:
        """Whether the line still ends as it did when it was read."""
        length = min(self.columns.lengths[index], _TAIL)
        end = self.columns.offsets[index] + self.columns.lengths[index]
        return zlib.crc32(os.pread(descriptor, length, end - length)) == self.columns.checks[index]

    def _read(self, stream: BinaryIO, limit: int | None) -> None:
        stream.seek(self.end)
        self.torn = 0
        border = self.end + limit if limit is not None else None
        while border is None or self.end < border:
            raw, length = _next_line(stream)
            if not length:
                break
            whole = raw.endswith(b"\n")
            facts = self._facts(raw, length)
            if not whole and facts is not None and facts.kind == MALFORMED:
                self.torn = length  # it is being written, or a crash cut it: not a malformed line yet
                break
            self._take(raw, length, facts, whole=whole)

    def _facts(self, raw: bytes, length: int) -> Facts | None:
        if length > len(raw):
            return Facts(kind=MALFORMED)
        return read_facts(raw, failed=self.failed) if raw.strip() else None

    def _take(self, raw: bytes, length: int, facts: Facts | None, *, whole: bool) -> None:
        if not self._open_line:
            self._lines += 1
        if facts is not None:
            check = zlib.crc32(raw[-_TAIL:])
            self.columns.add(facts, offset=self.end, length=length, number=self._lines, check=check)
        self._open_line = not whole
        self.end += length


def _next_line(stream: BinaryIO) -> tuple[bytes, int]:
    """(the line, its length); of one that is too long only the last part."""
    raw = stream.readline(MAX_LINE)
    length = len(raw)
    while length >= MAX_LINE and not raw.endswith(b"\n"):
        more = stream.readline(_BUFFER)
        if not more:
            break
        length += len(more)
        raw = (raw[-_TAIL:] if len(more) < _TAIL else b"") + more
    return raw, length

"""One file of rollouts: where each line is, and its facts as columns; the text stays on the disk.

Lines that were appended since the last look are read on the next one; a file that was replaced is read again. What
was read of a large file is kept in an index beside it.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from pathlib import Path
from typing import BinaryIO

from gym.console.viewer.columns import Columns
from gym.console.viewer.facts import MALFORMED, Facts, read_facts
from gym.console.viewer.line_index import Extent, LineIndex, StoredIndex

MAX_LINE = 256 << 20  # what is longer is not a rollout, and is not held in memory
BLOCK_LINES, BLOCK_BYTES = 1024, 16 << 20  # so much that is new makes a block of the index
_SAMPLE = 64  # lines by which an index and its file are compared
_BUFFER = 1 << 20
_HEAD = 256  # bytes by which a file is recognised
_TAIL = 256  # bytes by which a line is


class LineFile:
    """`columns` and `end` change on `refresh` alone."""

    def __init__(self, path: Path, *, run: str = "", failed: bool = False) -> None:
        self.path = path
        self.run = run
        self.failed = failed
        self._index = LineIndex(path)
        self._clear()

    def _clear(self) -> None:
        self.columns = Columns()
        self.end = 0  # of the last line that was read
        self.size = 0  # of the file when it was last looked at
        self.torn = 0  # bytes of a last line that is not whole (yet)
        self._lines = 0
        self._tried = self._saved = 0  # lines and bytes that were to be saved
        self._inode = 0
        self._mtime = 0
        self._head = b""
        self._open_line = False  # the last line was whole JSON without its newline
        self._index.forget()

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
            status = self.path.stat()
            if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
                raise OSError(errno.EINVAL, "is not a plain file", str(self.path))
            if not self.behind and self._is_known(status):
                return False
            stream = self.path.open("rb", buffering=_BUFFER)
        except FileNotFoundError:
            if before != (0, 0, 0):  # who adds columns up knows them by their identity
                self._clear()
            return before != (0, 0, 0)
        with stream:
            self._look(stream, os.fstat(stream.fileno()), limit)
        return before != (self._inode, self.end, self.torn)

    def _is_known(self, status: os.stat_result) -> bool:
        return (status.st_ino, status.st_size, status.st_mtime_ns) == (self._inode, self.size, self._mtime)

    def _look(self, stream: BinaryIO, status: os.stat_result, limit: int | None) -> None:
        if self._inode and not self._is_known(status) and not self._fits(stream.fileno(), status):
            self._clear()
        self._inode, self.size, self._mtime = status.st_ino, status.st_size, status.st_mtime_ns
        if not self.end:
            self._restore(stream.fileno(), status)
        if self.size != self.end + self.torn:
            self._read(stream, limit)

    def read(self, index: int) -> bytes:
        """The line itself, as it is on the disk now."""
        with self.path.open("rb", buffering=0) as stream:
            return self.read_from(stream.fileno(), index)

    def is_same(self, raw: bytes, index: int) -> bool:
        """Whether this is still the line that was indexed."""
        return zlib.crc32(raw[-_TAIL:]) == self.columns.checks[index] and len(raw) == self.columns.lengths[index]

    def read_from(self, descriptor: int, index: int) -> bytes:
        return os.pread(descriptor, self.columns.lengths[index], self.columns.offsets[index])

    def _fits(self, descriptor: int, status: os.stat_result) -> bool:
        """Whether what was read is still what the file begins with."""
        if status.st_ino != self._inode or status.st_size < self.end:
            return False
        return self._head == os.pread(descriptor, len(self._head), 0) and (
            not len(self) or self.is_line(descriptor, len(self) - 1)
        )

    def _restore(self, descriptor: int, status: os.stat_result) -> None:
        stored = self._index.load()
        if stored is None:
            return
        self.columns, extent = stored.columns, stored.extent
        if not self._fits_stored(descriptor, status, stored):
            self.columns = Columns()
            self._index.forget()
            return
        self.end = self._saved = extent.end
        self._tried, self._lines, self._head = len(self), extent.lines, bytes.fromhex(extent.head)

    def _fits_stored(self, descriptor: int, status: os.stat_result, stored: StoredIndex) -> bool:
        """By the ends of some lines; by those of all where the file has been written and is no longer than it was."""
        extent, count = stored.extent, len(stored.columns)
        if status.st_size < extent.end or os.pread(descriptor, len(extent.head) // 2, 0).hex() != extent.head:
            return False
        every = status.st_size == extent.size and status.st_mtime_ns != extent.mtime
        sample = (
            range(count)
            if every or count <= _SAMPLE
            else (each * (count - 1) // _SAMPLE for each in range(_SAMPLE + 1))
        )
        return all(self.is_line(descriptor, index) for index in sample)

    def _save(self) -> None:
        """What stands in whole lines goes into the index, a block at a time."""
        small = len(self) - self._tried < BLOCK_LINES and self.end - self._saved < BLOCK_BYTES
        if small or self._open_line or len(self) == self._tried:
            return
        self._index.save(self.columns, Extent(self.end, self._lines, self.size, self._mtime, self._head.hex()))
        self._tried, self._saved = len(self), self.end

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
            self._head = self._head or os.pread(stream.fileno(), min(_HEAD, length), 0)
            whole = raw.endswith(b"\n")
            facts = self._facts(raw, length)
            if not whole and facts is not None and facts.kind == MALFORMED:
                self.torn = length  # it is being written, or a crash cut it: not a malformed line yet
                break
            self._take(raw, length, facts, whole=whole)
            self._save()

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

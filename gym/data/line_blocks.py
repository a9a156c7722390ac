"""Files as blocks of whole lines: a long line, a cut file and an empty one are findings."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Final, NamedTuple

from gym.data.line_source import Line, name_of, open_input
from gym.data.zstd import large_window_hint
from gym.errors import Problem, UserError

BLOCK: Final = 256 << 10  # larger ones no longer fit a cache: 20 % slower
DAMAGED_FILE: Final = "the file is damaged: fetch it again, or test it (gzip -t, zstd -t)"


class Block(NamedTuple):
    """Whole lines, the first of which has the number `first`; or the problem that stopped the reading of a part."""

    file: str
    first: int
    raw: bytes
    problem: Problem | None = None

    def lines(self) -> Iterator[Line]:
        """Those that are not blank."""
        for number, text in enumerate(self.raw.split(b"\n"), self.first):
            raw = text.strip()
            if raw:
                yield Line(raw, self.file, number)


def read_blocks(files: Iterable[str], max_line: int, size: int = BLOCK) -> Iterator[Block]:
    """In the order of the files; memory is bounded by `max_line` and two blocks."""
    for file in files:
        reader = _Reader(file, max_line, size)
        try:
            with open_input(file) as stream:
                yield from reader.read(stream)
        except UserError:
            raise
        except Exception as error:  # noqa: BLE001 (every decompressor has error classes of its own)
            hint = large_window_hint(file, error) or DAMAGED_FILE
            yield reader.problem(f"cannot be read from here on: {error}", hint)
        if reader.empty:
            yield Block(reader.name, 0, b"", Problem("has no rows", file=reader.name, hint="is it the right file?"))


class _Reader:
    """What is left of a file between two reads."""

    def __init__(self, file: str, max_line: int, size: int) -> None:
        self.name = name_of(file)
        self.empty = True
        self._max, self._size = max_line, size
        self._number = 1  # of the line that `_partial` begins
        self._partial: list[bytes] = []
        self._length = 0
        self._skipping = False

    def read(self, stream: BinaryIO) -> Iterator[Block]:
        first = True
        read = getattr(stream, "read1", stream.read)  # a cut file gives the bytes it has before the error
        while chunk := read(self._size):
            if first:
                chunk, first = chunk.removeprefix(BOM_UTF8), False
            yield from self._take(chunk)
        yield from self.flush()

    def flush(self) -> Iterator[Block]:
        """The last line may have no end."""
        if not self._skipping:
            yield from self._emit(b"".join(self._partial))
        self._partial, self._length = [], 0

    def problem(self, what: str, hint: str) -> Block:
        """The line that is being read is lost."""
        self.empty = False
        number = self._number
        return Block(self.name, number, b"", Problem(what, file=self.name, line=number, hint=hint))

    def _take(self, chunk: bytes) -> Iterator[Block]:
        if self._skipping:
            end = chunk.find(b"\n")
            if end < 0:
                return
            chunk, self._skipping = chunk[end + 1 :], False
            self._number += 1
        end = chunk.rfind(b"\n") + 1
        if end:
            yield from self._emit(b"".join([*self._partial, chunk[:end]]))
            self._partial, self._length = [], 0
        self._partial.append(chunk[end:])
        self._length += len(chunk) - end
        if self._length > self._max:
            self._partial, self._length, self._skipping = [], 0, True
            yield self.problem(f"the line is longer than {self._max:,} bytes", "split the row, or: --max-line BYTES")

    def _emit(self, raw: bytes) -> Iterator[Block]:
        if raw and not raw.isspace():
            self.empty = False
            yield Block(self.name, self._number, raw)
        self._number += raw.count(b"\n")

"""Bounded space in blocks of one size, for texts that are kept for a while: in memory, or in a file without a name.

Of memory of its own, as texts that stay in the allocator's cost more than the call: every page is asked for again
(0.4 ms of CPU for a call of 100 KB on a virtual machine; copied here, 0.1 ms).
"""

from __future__ import annotations

import mmap
import os
import tempfile
from typing import IO, Final

from gym.files import write_at

MEMORY_BLOCK: Final = 8 * 1024
FILE_BLOCK: Final = 64 * 1024


class Blocks:
    """Which blocks are free. One that was freed last is taken first: its pages are there."""

    def __init__(self, max_bytes: int, size: int) -> None:
        self.size = size
        self._max = max_bytes // size
        self._free: list[int] = []
        self._end = 0

    @property
    def used(self) -> int:
        return (self._end - len(self._free)) * self.size

    def needed(self, length: int) -> int:
        return -(-length // self.size)

    def has_room(self, count: int) -> bool:
        return count <= self._max - self._end + len(self._free)

    def free(self, blocks: list[int]) -> None:
        self._free.extend(blocks)

    def _take(self) -> int:
        if self._free:
            return self._free.pop()
        self._end += 1
        return self._end - 1

    def _reset(self) -> None:
        self._free.clear()
        self._end = 0


class Arena(Blocks):
    """Memory. What belongs together is one text over several blocks, which grows at its end."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, MEMORY_BLOCK)
        self._memory: mmap.mmap | None = None

    def append(self, blocks: list[int], end: int, data: bytes) -> int:
        """The new end of a text that ends at `end` of its blocks. Ask `has_room` before."""
        if self._memory is None:
            self._memory = mmap.mmap(-1, max(self._max, 1) * self.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        done = 0
        view = memoryview(data)
        while done < len(data):
            index, offset = divmod(end + done, self.size)
            if index == len(blocks):
                blocks.append(self._take())
            count = min(self.size - offset, len(data) - done)
            at = blocks[index] * self.size + offset
            self._memory[at : at + count] = view[done : done + count]
            done += count
        return end + done

    def read(self, blocks: list[int], start: int, length: int) -> bytes:
        if not length:
            return b""
        assert self._memory is not None
        first = start // self.size
        parts = [
            self._memory[one * self.size : (one + 1) * self.size] for one in blocks[first : self.needed(start + length)]
        ]
        return b"".join(parts)[start - first * self.size :][:length]

    def release(self) -> None:
        """Gives the pages back, where nothing is kept."""
        if not self.used and self._memory is not None:
            self._reset()
            self._memory.close()
            self._memory = None


class Spool(Blocks):
    """A file. Nothing is left of it, whatever ends the process."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, FILE_BLOCK)
        self._file: IO[bytes] | None = None

    def write(self, data: bytes) -> list[int]:
        """The blocks that hold it. Ask `has_room` before; raises OSError where the disk refuses."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="gym-traces-", buffering=0)  # noqa: SIM115 (closed by `close`)
        blocks = [self._take() for _ in range(self.needed(len(data)))]
        try:
            for index, block in enumerate(blocks):
                part = data[index * self.size : (index + 1) * self.size]
                write_at(self._file.fileno(), part, block * self.size)
        except OSError:
            self.free(blocks)
            raise
        return blocks

    def read(self, blocks: list[int], start: int, length: int) -> bytes:
        assert self._file is not None
        first = start // self.size
        wanted = blocks[first : self.needed(start + length)]
        parts = [os.pread(self._file.fileno(), self.size, block * self.size) for block in wanted]
        return b"".join(parts)[start - first * self.size :][:length]

    def free(self, blocks: list[int]) -> None:
        super().free(blocks)
        if not self.used and self._file is not None:
            self._reset()
            self._file.truncate(0)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

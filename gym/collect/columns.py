"""Numbers of millions of rows described in little memory: counted while few values are distinct, on disk beyond.

Mean, median and deviation are exact up to rounding either way.
"""

from __future__ import annotations

import math
import tempfile
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import IO

MOST_DISTINCT = 2000
_CHUNK = 8192  # numbers
_MOST_SORTED = 100_000
_SIGN, _ALL = 1 << 63, (1 << 64) - 1


class Column:
    """One field's numbers. `close` it when done."""

    def __init__(self) -> None:
        self._counts: Counter[float] = Counter()
        self._chunk = array("d")
        self._file: IO[bytes] | None = None
        self.count = 0

    def append(self, value: float) -> None:
        self.count += 1
        if self._file is None:
            self._counts[value] += 1
            if len(self._counts) > MOST_DISTINCT:
                self._spill()
            return
        self._chunk.append(value)
        if len(self._chunk) >= _CHUNK:
            self._flush()

    def describe(self, name: str) -> dict[str, float]:
        """`mean/x, max/x, min/x, median/x, std/x`."""
        mean = math.fsum(value * count for value, count in self._pairs()) / self.count
        apart = math.fsum((value - mean) ** 2 * count for value, count in self._pairs())
        return {
            f"mean/{name}": mean,
            f"max/{name}": max(value for value, _ in self._pairs()),
            f"min/{name}": min(value for value, _ in self._pairs()),
            f"median/{name}": (self._at((self.count - 1) // 2) + self._at(self.count // 2)) / 2,
            f"std/{name}": math.sqrt(apart / (self.count - 1)) if self.count > 1 else 0.0,
        }

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _spill(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        for value, count in self._counts.items():
            self._chunk.extend([value] * count)
            if len(self._chunk) >= _CHUNK:
                self._flush()
        self._counts.clear()

    def _flush(self) -> None:
        assert self._file is not None
        self._file.write(self._chunk.tobytes())
        self._chunk = array("d")

    def _pairs(self) -> Iterator[tuple[float, int]]:
        if self._file is None:
            yield from self._counts.items()
        else:
            for chunk in self._chunks("d"):
                yield from ((value, 1) for value in chunk)

    def _chunks(self, kind: str) -> Iterator[array[float]]:
        assert self._file is not None
        self._flush()
        self._file.seek(0)
        while data := self._file.read(8 * _CHUNK):
            chunk: array[float] = array(kind)
            chunk.frombytes(data)
            yield chunk

    def _at(self, place: int) -> float:
        """The number at that place in their order."""
        if self._file is not None:
            return self._select(place)
        for value, count in sorted(self._counts.items()):
            place -= count
            if place < 0:
                return value
        raise IndexError(place)

    def _select(self, place: int) -> float:
        """Sixteen bits at a time: which numbers begin like the one that is looked for, until they are few."""
        begin = 0
        for shift in (48, 32, 16, 0):
            sizes = [0] * 65536
            for bits in self._alike(begin, shift + 16):
                sizes[bits >> shift & 0xFFFF] += 1
            digit = 0
            while place >= sizes[digit]:
                place -= sizes[digit]
                digit += 1
            begin = begin << 16 | digit
            if sizes[digit] <= _MOST_SORTED:
                return _to_number(sorted(self._alike(begin, shift))[place])
        return _to_number(begin)

    def _alike(self, begin: int, shift: int) -> Iterator[int]:
        """The numbers as integers of the same order, those whose upper bits are these."""
        for chunk in self._chunks("Q"):
            for raw in chunk:
                bits = int(raw)
                bits = bits ^ _ALL if bits & _SIGN else bits | _SIGN
                if bits >> shift == begin:
                    yield bits


def _to_number(bits: int) -> float:
    raw = bits ^ _SIGN if bits & _SIGN else bits ^ _ALL
    return array("d", array("Q", (raw,)).tobytes())[0]

"""How many different values there were, at no more than 16 bytes for each of them: it stores their 64-bit hashes."""

from __future__ import annotations

from array import array

_FEW = 4096  # until then a set
_PARTS = 64
_SLACK = 512  # of a part, before repeats are taken out of it


class Uniques:
    """Hashes are those of this process and its forks: pickled ones of a process with another seed are refused.

    Two values share a hash with a chance of 1 in 4e9 among 65,000 of them, of 3 in 1e6 among ten million.
    """

    __slots__ = ("_few", "_limits", "_parts", "_seed", "total")

    def __init__(self) -> None:
        self.total = 0
        self._few: set[int] | None = set()
        self._parts: list[array[int]] = []
        self._limits: list[int] = []
        self._seed = hash("seed")

    def observe(self, value: str | bytes) -> None:
        self.total += 1
        if self._few is None:
            self._append(hash(value))
            return
        self._few.add(hash(value))
        if len(self._few) > _FEW:
            self._spread()

    def add(self, other: Uniques, times: int = 1) -> None:
        if other._seed != self._seed:
            raise ValueError("hashes of a process with another seed cannot be merged: fork it, or set PYTHONHASHSEED")
        self.total += other.total * times
        for one in other._hashes():
            if self._few is None:
                self._append(one)
            else:
                self._few.add(one)
                if len(self._few) > _FEW:
                    self._spread()

    def count(self) -> int:
        if self._few is not None:
            return len(self._few)
        for index in range(_PARTS):
            self._compact(index)
        return sum(len(part) for part in self._parts)

    def to_json(self) -> dict[str, int]:
        return {"unique_count": self.count(), "total_count": self.total}

    def _hashes(self) -> list[int] | set[int]:
        return self._few if self._few is not None else [one for part in self._parts for one in part]

    def _spread(self) -> None:
        few, self._few = self._few or set(), None
        self._parts = [array("q") for _ in range(_PARTS)]
        self._limits = [_SLACK] * _PARTS
        for one in few:
            self._append(one)

    def _append(self, hashed: int) -> None:
        index = hashed % _PARTS
        part = self._parts[index]
        part.append(hashed)
        if len(part) > self._limits[index]:
            self._compact(index)

    def _compact(self, index: int) -> None:
        """One part at a time, so a set of all of them never is."""
        self._parts[index] = array("q", set(self._parts[index]))
        self._limits[index] = max(_SLACK, 2 * len(self._parts[index]))

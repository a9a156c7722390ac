"""Rows found by the n-grams they have: hashes in memory, about 100 bytes an n-gram, never the text."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Sequence

from gym.data.line_source import Line
from gym.data.ngrams import Grams, choose_grams

COMMON = 20  # an n-gram that more rows have than this is a phrase of the data set, and says nothing


class HashTable:
    """Which rows have a hash: a list only where several have it."""

    def __init__(self) -> None:
        self._rows: dict[int, int | list[int]] = {}

    def add(self, key: int, row: int, max_rows: int = 1 << 62) -> None:
        rows = self._rows.get(key)
        if rows is None:
            self._rows[key] = row
        elif isinstance(rows, int):
            self._rows[key] = [rows, row]
        elif len(rows) <= max_rows:
            rows.append(row)

    def rows(self, key: int) -> Sequence[int]:
        rows = self._rows.get(key, ())
        return (rows,) if isinstance(rows, int) else rows

    def drop_common(self, max_rows: int) -> frozenset[int]:
        common = frozenset(key for key, rows in self._rows.items() if isinstance(rows, list) and len(rows) > max_rows)
        for key in common:
            del self._rows[key]
        return common

    def counts(self, keys: frozenset[int]) -> Counter[int]:
        """How many of these keys each row has."""
        return Counter(row for key in self._rows.keys() & keys for row in self.rows(key))

    def __iter__(self) -> Iterator[int]:
        """Every row, once for each of its keys."""
        for key in self._rows:
            yield from self.rows(key)


class NgramIndex:
    """Rows with their places, found by their whole text or by the n-grams in it."""

    def __init__(self) -> None:
        self.texts = HashTable()
        self.grams = HashTable()
        self.common: frozenset[int] = frozenset()
        self.sizes = array("L")  # of each row, how many of its n-grams are not common
        self._files: list[str] = []
        self._numbers = array("L")

    def add(self, line: Line, grams: Grams | None, *, chosen: bool) -> None:
        row = len(self._files)
        self._files.append(line.file)
        self._numbers.append(line.number)
        if grams:
            self.texts.add(grams.text, row)
            for gram in choose_grams(grams.all) if chosen else grams.all:
                self.grams.add(gram, row, COMMON)

    def close(self) -> None:
        """After the last row."""
        self.common = self.grams.drop_common(COMMON)
        self.sizes = array("L", [0]) * len(self._files)
        for row in self.grams:
            self.sizes[row] += 1

    def where(self, row: int) -> str:
        return f"{self._files[row]}:{self._numbers[row]}"

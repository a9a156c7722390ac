"""Findings with the same meaning as one: on which lines, how many, and what stands there. Bounded, however many."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from gym.errors import Problem

MAX_MEANINGS: Final = 1000
MAX_RANGES: Final = 20
MAX_VALUES: Final = 20
_INDEX = re.compile(r"\[\d+\]")


@dataclass(slots=True)
class Folded:
    """`problem` is the first of them."""

    problem: Problem
    lines: int
    last: int
    ranges: list[list[int]]
    values: dict[str, int] = field(default_factory=dict)  # what stands there -> the first line of it
    more_values: bool = False
    same_key: bool = True

    def __str__(self) -> str:
        first = self.problem
        key = first.key if self.same_key else _INDEX.sub("[*]", first.key)
        where = f"{first.line}-{self.last}" if self.lines > 1 else str(first.line)
        what = first.what + (f" ({self._count()})" if self.lines > 1 else "") + self._sample()
        place = f"{first.file}:{where}: " if first.line else f"{first.file}: " if first.file else ""
        return place + (f"{key}: " if key else "") + what + (f"\n    {first.hint}" if first.hint else "")

    def as_json(self) -> dict[str, Any]:
        values = {"values": list(self.values), "more_values": self.more_values} if len(self.values) > 1 else {}
        return {**asdict(self.problem), "last": self.last, "lines": self.lines, "ranges": self.ranges, **values}

    def _count(self) -> str:
        whole = self.last - self.problem.line + 1 == self.lines
        shown = ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in self.ranges[:5])
        more = ", …" if len(self.ranges) > 5 else ""
        return f"{self.lines:,} lines" if whole else f"{self.lines:,} lines: {shown}{more}"

    def _sample(self) -> str:
        """One value; of ids and names that are not there, more of them."""
        if not self.values:
            return ""
        first, *others = self.values
        sample = f"; e.g. line {self.problem.line}: {first}" if self.lines > 1 else f": {first}"
        short = [one for one in others if len(one) <= 40][:4]
        more = len(others) > len(short) or self.more_values
        return sample + (f"; also {', '.join(short)}{', …' if more else ''}" if short else "")


class Fold:
    """Takes findings in the order of their lines."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, str], Folded] = {}
        self.left_out = 0  # findings of other meanings than the first thousand

    def __iter__(self) -> Iterator[Folded]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    def add(self, problem: Problem) -> None:
        values = {problem.value: problem.line} if problem.value else {}
        self._add(Folded(problem, 1, problem.line, [[problem.line, problem.line]], values))

    def merge(self, other: Iterable[Folded], left_out: int = 0) -> None:
        """Of lines that come after these."""
        for one in other:
            self._add(one)
        self.left_out += left_out

    def _add(self, new: Folded) -> None:
        problem = new.problem
        meaning = (problem.file, _INDEX.sub("[]", problem.key), problem.what, problem.hint)
        known = self._found.get(meaning)
        if known is None:
            if len(self._found) >= MAX_MEANINGS:
                self.left_out += new.lines
                return
            self._found[meaning] = new
        else:
            _join(known, new)


def _join(known: Folded, new: Folded) -> None:
    """A line with the same problem in several places is one line."""
    same_line = new.problem.line == known.last
    known.lines += new.lines - same_line
    for first, last in new.ranges:
        if first <= known.last + 1 and known.ranges[-1][1] == known.last:
            known.ranges[-1][1] = last
        elif len(known.ranges) < MAX_RANGES:
            known.ranges.append([first, last])
        known.last = last
    known.last = max(known.last, new.last)
    known.same_key &= new.same_key and new.problem.key == known.problem.key
    for value, line in new.values.items():
        if len(known.values) < MAX_VALUES:
            known.values.setdefault(value, line)
        elif value not in known.values:
            known.more_values = True
    known.more_values |= new.more_values


def pack(fold: Fold) -> list[dict[str, Any]]:
    """For another process."""
    return [asdict(one) for one in fold]


def unpack(packed: Iterable[dict[str, Any]]) -> Iterator[Folded]:
    for one in packed:
        yield replace(Folded(**one), problem=Problem(**one["problem"]))

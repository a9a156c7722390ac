"""No row that brings no `_ng_task_index` gets the number that another row brought: they would count as one task.

Each distinct row takes 4 bytes here, one that brought a number 12 to 16.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

from gym.collect.keys import DigestTable
from gym.data.line_source import Line


class TaskNumbers:
    def __init__(self) -> None:
        self._lines = _LineNumbers()
        self._brought = DigestTable(values=True)  # number -> the line that brought it first
        self._by_place = array("I")  # of each distinct row: its line, or 0 where it brought a number

    def find_brought(self, line: Line, number: int, index: int) -> str:
        """Where a row stands that has by its place what this one brings; else "". `index`: of the row's text."""
        if number < len(self._by_place) and (other := self._by_place[number]):
            return self._lines.name(other)
        place = self._lines.number(line)
        self._brought.add(number + 1, place)
        self._note(index, 0)
        return ""

    def find_by_place(self, line: Line, index: int) -> str:
        """Where a row stands that brought what this one has by its place; else ""."""
        if (other := self._brought.get(index + 1)) is not None:
            return self._lines.name(other)
        self._note(index, self._lines.number(line))
        return ""

    def _note(self, index: int, place: int) -> None:
        """Rows of the same text have one index. Those that are not noted were refused."""
        missing = index - len(self._by_place)
        if missing >= 0:
            self._by_place.extend([0] * missing + [place])


class _LineNumbers:
    """Lines of several files as one number each, from 1, in the order in which they are read."""

    def __init__(self) -> None:
        self._files: list[str] = []
        self._starts: list[int] = []
        self._last = 0

    def number(self, line: Line) -> int:
        if not self._files or self._files[-1] != line.file:
            self._files.append(line.file)
            self._starts.append(self._last)
        self._last = self._starts[-1] + line.number
        return self._last

    def name(self, number: int) -> str:
        place = bisect_right(self._starts, number - 1) - 1
        return f"{self._files[place]}:{number - self._starts[place]}"

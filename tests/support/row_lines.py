"""Rows in memory as if they had been read from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gym.data.line_source import Line, row_to_line


def lines_of_rows(rows: Iterable[object], name: str = "rows") -> Iterator[Line]:
    return (row_to_line(row, name, number) for number, row in enumerate(rows, 1))

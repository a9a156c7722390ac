"""Tables as values: a change gives a new table and leaves the old one to its other holders.

All sessions share the rows of the seed; one that changes a table pays for a tuple of references, not for the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

Row = dict[str, Any]  # never changed in place; an empty cell is None
NEW = -1


@dataclass(frozen=True, slots=True)
class Table:
    """`labels` are the row labels that a data frame would have by now: a compatible reward compares them as well."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    labels: tuple[int, ...]
    origins: tuple[int, ...]  # where a row stands in the seed; NEW for one that was added

    @classmethod
    def seed(cls, columns: tuple[str, ...], rows: list[Row]) -> Table:
        numbers = tuple(range(len(rows)))
        return cls(columns, tuple(rows), numbers, numbers)

    def find(self, column: str, value: Any) -> Row | None:
        return next((row for row in self.rows if row[column] == value), None)

    def has(self, column: str, value: Any) -> bool:
        return self.find(column, value) is not None

    def append(self, row: Row, *, label: int | None = None) -> Table:
        """With a label the other labels stay; without one they are counted again."""
        labels = tuple(range(len(self.rows) + 1)) if label is None else (*self.labels, label)
        if label is None and self.labels == labels[:-1]:
            labels = (*self.labels, len(self.rows))  # the numbers that the seed has already
        return Table(self.columns, (*self.rows, row), labels, (*self.origins, NEW))

    def update(self, column: str, value: Any, field: str, new: Any) -> Table:
        rows = tuple({**row, field: new} if row[column] == value else row for row in self.rows)
        return replace(self, rows=rows)

    def delete(self, column: str, value: Any) -> Table:
        kept = [index for index, row in enumerate(self.rows) if row[column] != value]
        return Table(
            self.columns,
            tuple(self.rows[index] for index in kept),
            tuple(self.labels[index] for index in kept),
            tuple(self.origins[index] for index in kept),
        )

    def last_id(self, column: str) -> str:
        """The greatest id as text, as which ids are compared: "500" is above "00000499"."""
        if not self.rows:
            raise ValueError(f"cannot number a row of an empty table by {column}")
        return str(max(row[column] for row in self.rows))

    def __len__(self) -> int:
        return len(self.rows)

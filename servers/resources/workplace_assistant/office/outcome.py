"""Compares what two lists of calls leave behind: both are replayed on the shared seed, and compared table by table.

Compatible unless `strict`: row labels count, a number in a cell is an empty cell, points in time are compared as text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from office.dates import read_time
from office.desk import Office, Seed
from office.table import NEW, Row, Table
from office.toolbox import CHANGING, run_tool

TABLES = ("events", "emails", "plots", "tasks", "customers")
_IDS = ("event_id", "email_id", "task_id", "customer_id")
_AS_WRITTEN = frozenset(("status", "list_name", "board"))  # letter case counts there
_TIMES = frozenset(("event_start", "sent_datetime", "due_date", "last_contact_date", "follow_up_by"))


def replay(seed: Seed, calls: Iterable[tuple[str, Any]], *, drop_nulls: bool = False) -> Office:
    """The office after `(name, arguments)` calls; what only reads is left out, what fails has changed nothing."""
    office = Office.open(seed)
    for name, text in calls:
        arguments = read_arguments(text) if name in CHANGING else None
        if arguments is not None:
            given = {key: value for key, value in arguments.items() if value is not None or not drop_nulls}
            run_tool(office, name, given)
    return office


def read_arguments(text: Any) -> dict[str, Any] | None:
    if not isinstance(text, (str, bytes)):
        return None
    try:
        parsed = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return parsed if isinstance(parsed, dict) else None


def differing(one: Office, other: Office, *, strict: bool) -> list[str]:
    """The tables in which the two differ."""
    same: Callable[[Table, Table], bool] = _same_facts if strict else _same_frame
    return [name for name in TABLES if not same(getattr(one, name), getattr(other, name))]


def changed_tables(before: Office, after: Office, *, strict: bool) -> list[str]:
    """The tables that one call has changed, as `differing` would see it; what it has not touched costs nothing."""
    return [name for name in TABLES if _has_changed(getattr(before, name), getattr(after, name), strict)]


def _has_changed(before: Table, after: Table, strict: bool) -> bool:
    if before is after:
        return False
    same = _same_facts if strict else _same_frame
    return len(before) != len(after) or not same(before, after)


def _same_frame(one: Table, other: Table) -> bool:
    """As two data frames are equal after their texts were lowered, labels included."""
    if one is other:
        return True
    if one.labels != other.labels:
        return False
    pairs = zip(one.rows, other.rows, strict=True)
    return all(a is b or all(_cell(a, name) == _cell(b, name) for name in one.columns) for a, b in pairs)


def _cell(row: Row, column: str) -> Any:
    cell = row[column]
    if column in _AS_WRITTEN:
        return cell
    return cell.lower() if isinstance(cell, str) else None


def _same_facts(one: Table, other: Table) -> bool:
    """Rows of the seed by where they stood, new ones in any order and whatever their number; a plot once."""
    if one is other:
        return True
    if "file_path" in one.columns:
        return set(map(_facts, one.rows)) == set(map(_facts, other.rows))
    return _same_kept(_kept(one), _kept(other)) and _added(one) == _added(other)


def _same_kept(one: Mapping[int, Row], other: Mapping[int, Row]) -> bool:
    if one.keys() != other.keys():
        return False
    pairs = ((row, other[origin]) for origin, row in one.items())
    return all(row is its or _facts(row) == _facts(its) for row, its in pairs)


def _kept(table: Table) -> Mapping[int, Row]:
    pairs = zip(table.origins, table.rows, strict=True)
    return {origin: row for origin, row in pairs if origin != NEW}


def _added(table: Table) -> Counter[frozenset[tuple[str, str]]]:
    pairs = zip(table.origins, table.rows, strict=True)
    return Counter(
        _facts({name: cell for name, cell in row.items() if name not in _IDS}) for origin, row in pairs if origin == NEW
    )


def _facts(row: Row) -> frozenset[tuple[str, str]]:
    return frozenset((name, _fact(name, cell)) for name, cell in row.items())


def _fact(column: str, cell: Any) -> str:
    """A cell as a person would compare it: 30 is "30", a T between day and time is a blank."""
    if cell is None:
        return ""
    text = repr(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()
    if column in _AS_WRITTEN:
        return text
    if column in _TIMES:
        try:
            return read_time(text).isoformat()
        except ValueError:
            return text.lower()
    return text.lower()

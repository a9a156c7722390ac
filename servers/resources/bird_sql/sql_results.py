"""What the workers run: two queries on one SQLite database, which they can read and do nothing else with.

Limits are counted in steps of SQLite's machine, rows and bytes, so that they hurt the same query on every computer.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

STEPS_A_LOOK = 100_000
MAX_GOLD_ROWS = 1_000_000
MAX_VALUE_BYTES = 16 << 20
MAX_GOLD_BYTES = 256 << 20
MAX_HEAP_BYTES = 512 << 20
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
CHANCE = {"random", "randomblob"}
NEVER = {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit"}
_ORDER_BY = re.compile(r"order\s+by\b", re.IGNORECASE)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\[[^\]]*\]|--[^\n]*|/\*.*?\*/", re.DOTALL)

Row = tuple[Any, ...]


class Refused(Exception):
    """Why a query gave no result."""


def compare(path: str, gold: str, predicted: str, steps: int, strict: bool) -> dict[str, Any]:
    """`{"match": …}`, or `{"gold": why}` or `{"predicted": why}` for the query that gave no result."""
    needed: set[str] = set()
    with closing(_open(Path(path), needed, deny_chance=False)) as database:
        try:
            width, wanted = _run_gold(database, gold, steps)
        except Refused as error:
            return {"gold": str(error)}
    looked_at: set[str] = set()
    with closing(_open(Path(path), looked_at, deny_chance=strict)) as database:
        try:
            with closing(_run(database, predicted, steps)) as rows:
                same = _same(width, wanted, rows, strict, _is_ordered(gold))
                return {"match": same and not (strict and needed and not looked_at)}  # a guess reads no table
        except Refused as error:
            return {"predicted": str(error)}


def _run_gold(database: sqlite3.Connection, sql: str, steps: int) -> tuple[int, list[Row]]:
    rows = _run(database, sql, steps)
    width = next(rows)[0]
    kept: list[Row] = []
    size = 0
    for row in rows:
        kept.append(row)
        size += sum(len(value) for value in row if isinstance(value, (str, bytes)))
        if len(kept) > MAX_GOLD_ROWS or size > MAX_GOLD_BYTES:
            raise Refused(f"its result has more than {MAX_GOLD_ROWS} rows or {MAX_GOLD_BYTES >> 20} MB")
    if all(value is None for row in kept for value in row):
        raise Refused("it returns nothing but NULL" if kept else "it returns no row")
    return width, kept


def _same(width: int, wanted: list[Row], rows: Iterator[Row], strict: bool, ordered: bool) -> bool:
    """As the benchmark does it: equal as sets. `strict`: as many columns, every row as often, and in an asked order."""
    given = next(rows)[0]
    if not strict:
        return _same_set(set(wanted), rows)
    if given != width:
        return False
    return _same_list(wanted, rows) if ordered else _same_bag(Counter(wanted), rows)


def _same_set(wanted: set[Row], rows: Iterator[Row]) -> bool:
    seen = set()
    for row in rows:
        if row not in wanted:
            return False
        seen.add(row)
    return len(seen) == len(wanted)


def _same_bag(wanted: Counter[Row], rows: Iterator[Row]) -> bool:
    left = wanted.total()
    for row in rows:
        if wanted[row] <= 0:
            return False
        wanted[row] -= 1
        left -= 1
    return left == 0


def _same_list(wanted: list[Row], rows: Iterator[Row]) -> bool:
    number = 0
    for row in rows:
        if number == len(wanted) or row != wanted[number]:
            return False
        number += 1
    return number == len(wanted)


def _run(database: sqlite3.Connection, sql: str, steps: int) -> Generator[Row, None, None]:
    """First one row with the number of columns, then the result's."""
    looks = steps // STEPS_A_LOOK
    taken = 0

    def look() -> bool:
        nonlocal taken
        taken += 1
        return taken > looks

    database.set_progress_handler(look, STEPS_A_LOOK)
    try:
        cursor = database.execute(sql)
        yield (len(cursor.description or ()),)
        yield from cursor
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        if taken > looks:
            raise Refused(f"it took more than {steps} steps") from None
        raise Refused(str(error)) from None
    except MemoryError:
        raise Refused(f"it needed more than {MAX_HEAP_BYTES >> 20} MB of memory") from None


def _open(path: Path, tables: set[str], *, deny_chance: bool) -> sqlite3.Connection:
    """A database file, or what a file of SQL statements makes, in memory. `tables` gets those that a query reads."""
    if path.suffix == ".sql":
        database = sqlite3.connect(":memory:")
        database.executescript(path.read_text(encoding="utf-8"))
    else:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    database.text_factory = lambda raw: raw.decode(errors="ignore")
    database.execute("PRAGMA temp_store=MEMORY")
    database.execute(f"PRAGMA hard_heap_limit={MAX_HEAP_BYTES}")
    database.execute("PRAGMA query_only=1")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    database.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)

    def allow(action: int, first: str | None, name: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ and first:
            tables.add(first)
        if action == sqlite3.SQLITE_FUNCTION:
            called = (name or "").lower()
            return sqlite3.SQLITE_DENY if called in NEVER or (deny_chance and called in CHANCE) else sqlite3.SQLITE_OK
        return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY

    database.set_authorizer(allow)
    return database


def _is_ordered(sql: str) -> bool:
    """True when the outermost query asks for an order."""
    bare = _QUOTED.sub(" ", sql)
    for found in _ORDER_BY.finditer(bare):
        before = bare[: found.start()]
        if before.count("(") == before.count(")"):
            return True
    return False

"""Rows of bird_sql made by program: their results found without SQL as well, their queries paid in both modes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from generate import LEVELS, BirdSqlGenerator, Database, Maker
from made_queries import Filter, Place, Question
from made_schemas import DATABASES

from gym.server.generating import Made, generate
from gym.server.serve import load_app
from gym.server.testing.made_rows import check_paid, check_repeatable

APP = Path(__file__).parents[1] / "app.py"
GENERATOR = BirdSqlGenerator()
Row = dict[str, Any]


def made(count: int, difficulty: str, **options: Any) -> list[Made]:
    return list(generate(GENERATOR, count, **({"seed": 5, "split": "train", "difficulty": difficulty} | options)))


class ByHand:
    """Answers a question over lists of rows: no SQL in it."""

    def __init__(self, database: Database, asked: Question) -> None:
        self.database, self.asked = database, asked
        self.tables = {name: self.rows_of(name) for name in database.tables}
        self.key = database.tables[asked.table].key

    def rows_of(self, table: str) -> list[Row]:
        names = [name for _, name, *_ in self.database.run(f"PRAGMA table_info({table})")]
        return [dict(zip(names, row, strict=True)) for row in self.database.run(f"SELECT * FROM {table}")]

    def value(self, row: Row, place: Place) -> Any:
        at = self.asked.table
        for column in place.path:
            parent = self.database.tables[at].parents[column][0]
            key = self.database.tables[parent].key
            (row,) = (one for one in self.tables[parent] if one[key] == row[column])
            at = parent
        return row[place.column]

    def meets(self, row: Row, one: Filter) -> bool:
        value, given = self.value(row, one.place), one.values
        if one.operator in ("empty", "there"):
            return (value is None) == (one.operator == "empty")
        if value is None:
            return False
        checks: dict[str, Callable[[], bool]] = {
            "=": lambda: bool(value == given[0]),
            "!=": lambda: bool(value != given[0]),
            ">": lambda: bool(value > given[0]),
            "<": lambda: bool(value < given[0]),
            "between": lambda: bool(given[0] <= value <= given[1]),
            "year": lambda: bool(value.startswith(given[0])),
        }
        return checks[one.operator]()

    def found(self) -> list[Row]:
        met = any if self.asked.any_filter else all
        return [row for row in self.tables[self.asked.table] if met(self.meets(row, one) for one in self.asked.filters)]

    def measure(self, rows: list[Row]) -> Any:
        if self.asked.aggregate == "COUNT":
            return len(rows)
        assert self.asked.number
        values = [self.value(row, self.asked.number) for row in rows]
        if not values:
            return None
        if self.asked.aggregate in ("MAX", "MIN"):
            return max(values) if self.asked.aggregate == "MAX" else min(values)
        return sum(values) / (len(values) if self.asked.aggregate == "AVG" else 1)

    def answer(self) -> list[tuple[Any, ...]]:
        asked, rows = self.asked, self.found()
        if asked.kind == "count":
            return [(len(rows),)]
        if asked.kind == "aggregate":
            return [(self.measure(rows),)]
        if asked.kind == "group":
            return self.groups(rows)
        if asked.kind == "above":
            assert asked.number
            every = [self.value(row, asked.number) for row in self.tables[asked.table]]
            return [(row[self.key],) for row in rows if self.value(row, asked.number) > sum(every) / len(every)]
        if asked.kind == "never":
            parents = self.database.tables[asked.table].parents.items()
            (column,) = (name for name, (parent, _) in parents if parent == asked.parent)
            key = self.database.tables[asked.parent].key
            used = {row[column] for row in rows}
            return [(one[key],) for one in self.tables[asked.parent] if one[key] not in used]
        return self.listed(rows)

    def listed(self, rows: list[Row]) -> list[tuple[Any, ...]]:
        if order := self.asked.order:
            rows.sort(key=lambda row: int(row[self.key]))
            rows.sort(key=lambda row: self.value(row, order), reverse=self.asked.down)
            rows = rows[: self.asked.limit or None]
        found = [tuple(self.value(row, one) for one in self.asked.columns) for row in rows]
        return list(dict.fromkeys(found)) if self.asked.kind == "distinct" else found

    def groups(self, rows: list[Row]) -> list[tuple[Any, ...]]:
        groups: dict[Any, list[Row]] = {}
        for row in rows:
            groups.setdefault(self.value(row, self.asked.columns[0]), []).append(row)
        found = [(key, self.measure(group)) for key, group in groups.items() if len(group) >= self.asked.least]
        if self.asked.limit:
            found.sort(key=lambda pair: pair[0])
            found.sort(key=lambda pair: round(pair[1], 2), reverse=True)
            return found[: self.asked.limit]
        return found


def nearly(rows: list[tuple[Any, ...]], *, ordered: bool) -> list[tuple[Any, ...]]:
    """Rounded to a digit less than the queries round, as two sums of floats may differ in the last."""
    rounded = [tuple(round(value, 1) if isinstance(value, float) else value for value in row) for row in rows]
    return rounded if ordered else sorted(rounded, key=repr)


@pytest.mark.parametrize("difficulty", LEVELS)
def test_a_reader_without_sql_finds_the_same_results(difficulty: str) -> None:
    random, kinds = Random(difficulty), set()
    for _ in range(120):
        database = random.choice(GENERATOR.databases)
        asked = Maker(random, database, LEVELS[difficulty]).make()
        if asked:
            kinds.add(asked.kind)
            ordered = bool(asked.order or asked.limit)
            by_hand = nearly(ByHand(database, asked).answer(), ordered=ordered)
            close = all(_alike(*pair) for pair in zip(by_hand, _by_sql(database, asked, ordered=ordered), strict=True))
            assert close, asked.sql(database.tables)
    assert kinds == set(LEVELS[difficulty].kinds)


def _by_sql(database: Database, asked: Question, *, ordered: bool) -> list[tuple[Any, ...]]:
    return nearly(database.run(asked.sql(database.tables)), ordered=ordered)


def _alike(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(abs(a - b) < 0.11 if isinstance(a, float) and isinstance(b, float) else a == b for a, b in pairs)


def test_a_question_says_every_value_and_every_limit_that_its_query_has() -> None:
    for difficulty in LEVELS:
        random = Random(difficulty)
        for _ in range(300):
            database = random.choice(GENERATOR.databases)
            if asked := Maker(random, database, LEVELS[difficulty]).make():
                text = asked.text(database.tables, random.randrange(3))
                values = [value for one in asked.filters for value in one.values]
                assert all(str(value) in text for value in (*values, asked.limit or "", asked.least or "")), text
                assert all(f"'{value}'" not in text for value in values if not isinstance(value, str))


def test_the_metadata_names_columns_that_are_there() -> None:
    for database in GENERATOR.databases:
        for name, table in DATABASES[database.name].items():
            columns = {column: not needed for _, column, _, needed, _, _ in database.run(f"PRAGMA table_info({name})")}
            assert set(columns) == {*table.columns, *table.parents}
            assert all(column.empty <= columns[one] for one, column in table.columns.items())


def test_the_same_seed_makes_the_same_rows_and_splits_share_no_task() -> None:
    rows = check_repeatable(GENERATOR, "simple", 100)
    held_out = made(100, "simple", split="validation", seed=6)
    assert not {one.row["gt_sql"] for one in rows} & {one.row["gt_sql"] for one in held_out}


def test_a_harder_row_needs_a_longer_query() -> None:
    lengths = [sum(len(one.row["gt_sql"]) for one in made(200, difficulty)) / 200 for difficulty in LEVELS]
    sys.stdout.write(f"characters of a query: {lengths}\n")
    assert all(longer > 1.3 * shorter for shorter, longer in zip(lengths, lengths[1:], strict=False))


@pytest.mark.parametrize("strict", [False, True])
async def test_the_verifier_pays_every_solution_and_no_empty_answer(strict: bool) -> None:
    await check_paid(load_app(APP), GENERATOR, 20, strict=strict)


@pytest.mark.long
@pytest.mark.parametrize(("strict", "count"), [(False, 10_000), (True, 2_000)])
async def test_ten_thousand_rows_of_each_difficulty_are_paid(strict: bool, count: int) -> None:
    await check_paid(load_app(APP), GENERATOR, count, strict=strict)

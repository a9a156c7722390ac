"""Writes the databases of the examples anew, as SQL: `python make_databases.py`. The same bytes in every run."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

FOLDER = Path(__file__).parent / "data" / "databases"
TOWNS = ("Aarau", "Bergen", "Cádiz", "Delft", "Eger", "Faro")
GENRES = ("crime", "history", "poetry", "science", "travel")
FIRST = ("Ada", "Bo", "Chidi", "Dora", "Emre", "Freya", "Goran", "Hana", "Iris", "Jonas")
LAST = ("Adler", "Brook", "Castell", "Dahl", "Eriksen", "Fabre", "Gallo", "Hofer")
NOUNS = ("Lantern", "Harbour", "Orchard", "Winter", "Compass", "Glacier", "Market", "Letter", "Bridge", "Island")
MACHINES = ("loom", "press", "lathe", "kiln")

LIBRARY = """CREATE TABLE branches (branch_id INTEGER PRIMARY KEY, town TEXT NOT NULL, opened INTEGER NOT NULL);
CREATE TABLE books (
  book_id INTEGER PRIMARY KEY, title TEXT NOT NULL, genre TEXT NOT NULL, year INTEGER NOT NULL, pages INTEGER NOT NULL
);
CREATE TABLE members (
  member_id INTEGER PRIMARY KEY, name TEXT NOT NULL, town TEXT NOT NULL, joined TEXT NOT NULL
);
CREATE TABLE loans (
  loan_id INTEGER PRIMARY KEY,
  book_id INTEGER NOT NULL REFERENCES books (book_id),
  member_id INTEGER NOT NULL REFERENCES members (member_id),
  branch_id INTEGER NOT NULL REFERENCES branches (branch_id),
  lent TEXT NOT NULL,
  returned TEXT
);
"""
WORKSHOP = """CREATE TABLE machines (machine_id INTEGER PRIMARY KEY, kind TEXT NOT NULL, bought INTEGER NOT NULL);
CREATE TABLE runs (
  run_id INTEGER PRIMARY KEY,
  machine_id INTEGER NOT NULL REFERENCES machines (machine_id),
  day TEXT NOT NULL,
  minutes REAL NOT NULL,
  faults INTEGER NOT NULL
);
"""


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, schema, rows in (("library", LIBRARY, make_library()), ("workshop", WORKSHOP, make_workshop())):
        (FOLDER / f"{name}.sql").write_text(schema + "".join(rows), encoding="utf-8")


def make_library() -> Iterator[str]:
    dice = random.Random(11)
    yield from insert("branches", [(number, town, 1950 + 7 * number) for number, town in enumerate(TOWNS[:4], 1)])
    books = [
        (
            number,
            f"The {dice.choice(NOUNS)} {number}",
            dice.choice(GENRES),
            dice.randint(1960, 2024),
            dice.randint(80, 700),
        )
        for number in range(1, 61)
    ]
    yield from insert("books", books)
    members = [
        (number, f"{dice.choice(FIRST)} {dice.choice(LAST)}", dice.choice(TOWNS), make_day(dice, 2015, 2023))
        for number in range(1, 41)
    ]
    yield from insert("members", members)
    loans = [
        (
            number,
            dice.randint(1, 60),
            dice.randint(1, 36),  # some members never borrow
            dice.randint(1, 4),
            make_day(dice, 2024, 2024),
            make_day(dice, 2025, 2025) if dice.random() < 0.8 else None,
        )
        for number in range(1, 201)
    ]
    yield from insert("loans", loans)


def make_workshop() -> Iterator[str]:
    dice = random.Random(12)
    machines = [(number, MACHINES[number % 4], dice.randint(2005, 2022)) for number in range(1, 13)]
    yield from insert("machines", machines)
    runs = [
        (
            number,
            dice.randint(1, 12),
            make_day(dice, 2024, 2025),
            round(dice.uniform(5, 480), 1),
            max(0, dice.randint(-6, 4)),
        )
        for number in range(1, 301)
    ]
    yield from insert("runs", runs)


def make_day(dice: random.Random, first: int, last: int) -> str:
    return f"{dice.randint(first, last)}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"


def insert(table: str, rows: Sequence[tuple[object, ...]]) -> Iterator[str]:
    """One statement a table, one row a line."""
    yield f"INSERT INTO {table} VALUES\n"
    yield ",\n".join(f"({', '.join(map(literal, row))})" for row in rows)
    yield ";\n"


def literal(value: object) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


if __name__ == "__main__":
    main()

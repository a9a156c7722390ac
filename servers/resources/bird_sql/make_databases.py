"""Writes the databases of examples and made rows: `python make_databases.py`. The same bytes in every run."""

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
CATEGORIES = ("garden", "kitchen", "office", "toys", "travel")
CHANNELS = ("web", "phone", "shop")
SUBJECTS = ("biology", "chemistry", "history", "music", "physics")
REMARKS = ("late", "copied", "excellent")
POSITIONS = ("goalkeeper", "defender", "midfielder", "forward")

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
SHOP = """CREATE TABLE customers (
  customer_id INTEGER PRIMARY KEY, name TEXT NOT NULL, town TEXT NOT NULL, since TEXT NOT NULL, discount REAL
);
CREATE TABLE products (
  product_id INTEGER PRIMARY KEY,
  label TEXT NOT NULL,
  category TEXT NOT NULL,
  price REAL NOT NULL,
  stock INTEGER NOT NULL
);
CREATE TABLE orders (
  order_id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (customer_id),
  placed TEXT NOT NULL,
  channel TEXT NOT NULL,
  shipped TEXT
);
CREATE TABLE items (
  item_id INTEGER PRIMARY KEY,
  order_id INTEGER NOT NULL REFERENCES orders (order_id),
  product_id INTEGER NOT NULL REFERENCES products (product_id),
  quantity INTEGER NOT NULL,
  paid REAL NOT NULL
);
"""
SCHOOL = """CREATE TABLE teachers (
  teacher_id INTEGER PRIMARY KEY, name TEXT NOT NULL, subject TEXT NOT NULL, hired INTEGER NOT NULL
);
CREATE TABLE courses (
  course_id INTEGER PRIMARY KEY,
  teacher_id INTEGER NOT NULL REFERENCES teachers (teacher_id),
  title TEXT NOT NULL,
  room TEXT NOT NULL,
  hours INTEGER NOT NULL
);
CREATE TABLE pupils (
  pupil_id INTEGER PRIMARY KEY, name TEXT NOT NULL, town TEXT NOT NULL, born TEXT NOT NULL, grade INTEGER NOT NULL
);
CREATE TABLE marks (
  mark_id INTEGER PRIMARY KEY,
  pupil_id INTEGER NOT NULL REFERENCES pupils (pupil_id),
  course_id INTEGER NOT NULL REFERENCES courses (course_id),
  day TEXT NOT NULL,
  points INTEGER NOT NULL,
  remark TEXT
);
"""
LEAGUE = """CREATE TABLE teams (
  team_id INTEGER PRIMARY KEY, name TEXT NOT NULL, town TEXT NOT NULL, founded INTEGER NOT NULL
);
CREATE TABLE players (
  player_id INTEGER PRIMARY KEY,
  team_id INTEGER NOT NULL REFERENCES teams (team_id),
  name TEXT NOT NULL,
  position TEXT NOT NULL,
  height INTEGER NOT NULL,
  wage REAL
);
CREATE TABLE games (
  game_id INTEGER PRIMARY KEY,
  home_id INTEGER NOT NULL REFERENCES teams (team_id),
  day TEXT NOT NULL,
  goals_for INTEGER NOT NULL,
  goals_against INTEGER NOT NULL,
  spectators INTEGER NOT NULL
);
"""


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, schema, rows in (
        ("library", LIBRARY, make_library()),
        ("workshop", WORKSHOP, make_workshop()),
        ("shop", SHOP, make_shop()),
        ("school", SCHOOL, make_school()),
        ("league", LEAGUE, make_league()),
    ):
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


def make_shop() -> Iterator[str]:
    dice = random.Random(13)
    customers = [
        (n, make_name(dice), dice.choice(TOWNS), make_day(dice, 2015, 2023), dice.choice((None, 2.5, 5.0, 7.5, 10.0)))
        for n in range(1, 91)
    ]
    yield from insert("customers", customers)
    products = [
        (n, f"{dice.choice(NOUNS)} {n}", dice.choice(CATEGORIES), round(dice.uniform(2, 300), 2), dice.randint(0, 200))
        for n in range(1, 61)
    ]
    yield from insert("products", products)
    orders = [
        (
            *(n, dice.randint(1, 80), make_day(dice, 2023, 2025), dice.choice(CHANNELS)),
            make_day(dice, 2026, 2026) if dice.random() < 0.7 else None,
        )
        for n in range(1, 251)
    ]
    yield from insert("orders", orders)
    items = []
    for n in range(1, 501):
        product, quantity = dice.choice(products[:52]), dice.randint(1, 9)
        items.append((n, dice.randint(1, 240), product[0], quantity, round(product[3] * quantity, 2)))
    yield from insert("items", items)


def make_school() -> Iterator[str]:
    dice = random.Random(14)
    teachers = [(n, make_name(dice), dice.choice(SUBJECTS), dice.randint(1995, 2024)) for n in range(1, 25)]
    yield from insert("teachers", teachers)
    courses = []
    for n in range(1, 41):
        teacher = dice.choice(teachers[:21])
        room = f"{dice.choice('ABC')}{dice.randint(1, 12)}"
        courses.append((n, teacher[0], f"{teacher[2].capitalize()} {n}", room, dice.randint(1, 6)))
    yield from insert("courses", courses)
    pupils = [
        (n, make_name(dice), dice.choice(TOWNS), make_day(dice, 2008, 2014), dice.randint(5, 12)) for n in range(1, 121)
    ]
    yield from insert("pupils", pupils)
    marks = [
        (
            *(n, dice.randint(1, 110), dice.randint(1, 37), make_day(dice, 2024, 2025), dice.randint(0, 100)),
            dice.choice(REMARKS) if dice.random() < 0.3 else None,
        )
        for n in range(1, 501)
    ]
    yield from insert("marks", marks)


def make_league() -> Iterator[str]:
    dice = random.Random(15)
    nouns = dice.sample(NOUNS, 10) + dice.sample(NOUNS, 8)
    teams = [
        (n, f"{noun} {dice.choice(TOWNS)} {n}", dice.choice(TOWNS), dice.randint(1890, 2015))
        for n, noun in enumerate(nouns, 1)
    ]
    yield from insert("teams", teams)
    players = [
        (
            *(n, dice.randint(1, 17), make_name(dice), dice.choice(POSITIONS), dice.randint(160, 205)),
            round(dice.uniform(800, 9000), 2) if dice.random() < 0.9 else None,
        )
        for n in range(1, 251)
    ]
    yield from insert("players", players)
    games = [
        (
            n,
            dice.randint(1, 16),
            make_day(dice, 2023, 2025),
            dice.randint(0, 6),
            dice.randint(0, 5),
            dice.randint(50, 9000),
        )
        for n in range(1, 301)
    ]
    yield from insert("games", games)


def make_name(dice: random.Random) -> str:
    return f"{dice.choice(FIRST)} {dice.choice(LAST)}"


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

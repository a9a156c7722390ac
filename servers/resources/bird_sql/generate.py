"""Makes rows over the made databases: python generate.py --count 100 --seed 7 --difficulty challenging > rows.jsonl.

A difficulty sets the kinds of questions, how many tables a query joins and how many conditions it has.
"""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from made_queries import Filter, Kind, Place, Question
from made_schemas import DATABASES

from gym.server.generating import Made, main, make_row

FOLDER: Final = Path(__file__).parent / "data" / "databases"
MAX_ROWS: Final = 60  # of a result
OPENINGS: Final = (
    "A SQLite database has this schema:",
    "This is the schema of a SQLite database:",
    "You are given a SQLite database. Its tables were made by these statements:",
)
ENDINGS: Final = (
    "Answer with one query in a ```sql fence.",
    "Write one SQLite query that gives exactly the columns asked for, and put it in a ```sql fence.",
    "You may think first. The last ```sql fence of your answer has to hold one query, and that query counts.",
)


class Level(NamedTuple):
    kinds: tuple[Kind, ...]
    filters: tuple[int, int]
    depth: tuple[int, int]  # foreign keys that a condition or a column follows, at most


LEVELS: Final = {
    "simple": Level(("count", "listing", "distinct", "aggregate"), (1, 1), (0, 0)),
    "moderate": Level(("count", "listing", "aggregate", "group", "above"), (1, 2), (1, 1)),
    "challenging": Level(("listing", "aggregate", "group", "group", "above", "never"), (2, 3), (1, 2)),
}


class Database:
    """A made database: its tables in words, its schema, its rows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tables = DATABASES[name]
        script = (FOLDER / f"{name}.sql").read_text("utf-8")
        self.schema = script[: script.index("INSERT INTO")].strip()
        self.connection = sqlite3.connect(":memory:")
        self.connection.executescript(script)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(self.connection.execute(sql)) as cursor:
            return cursor.fetchall()

    def values(self, place: Place) -> list[Any]:
        found = self.run(f"SELECT DISTINCT {place.column} FROM {place.table} ORDER BY 1")
        return [value for (value,) in found if value is not None]


class BirdSqlGenerator:
    licence = "Apache-2.0"
    difficulties = tuple(LEVELS)

    def __init__(self) -> None:
        self.databases = [Database(name) for name in DATABASES]

    def make(self, random: Random, difficulty: str) -> Made:
        database = random.choice(self.databases)
        question = Maker(random, database, LEVELS[difficulty]).make()
        sql = question.sql(database.tables) if question else ""
        result = database.run(sql) if sql else []
        if not question or not 1 <= len(result) <= MAX_ROWS or _says_nothing(result):
            return self.make(random, difficulty)
        asked = question.text(database.tables, random.randrange(3))
        prompt = f"{random.choice(OPENINGS)}\n\n{database.schema}\n\n{asked}\n\n{random.choice(ENDINGS)}"
        key = _key_of(database.name, question, result)
        row = make_row("bird_sql", key, prompt, question=asked, gt_sql=sql, db_id=database.name, difficulty=difficulty)
        return Made(row, answer=f"```sql\n{sql}\n```", key=key)


def _says_nothing(result: list[tuple[Any, ...]]) -> bool:
    """A result that many a wrong query has as well: NULL, or nothing counted."""
    return all(value in (None, 0) for row in result for value in row)


def _key_of(database: str, question: Question, result: list[tuple[Any, ...]]) -> str:
    """A question with other limits and the same result is the same task."""
    shape = question._replace(filters=tuple(one._replace(values=()) for one in question.filters))
    return f"{database}:{shape}:{hashlib.blake2b(repr(result).encode(), digest_size=8).hexdigest()}"


class Maker:
    def __init__(self, random: Random, database: Database, level: Level) -> None:
        self.random, self.database, self.level = random, database, level
        self.tables = database.tables

    def make(self) -> Question | None:
        """None where the table at hand has not what the question needs."""
        kind: Kind = self.random.choice(self.level.kinds)
        table = self.random.choice(
            [name for name in self.tables if self.level.depth[0] == 0 or self.tables[name].parents]
        )
        places = self.places(table)
        filters = self.filters(places)
        asked = Question(kind, table, filters=filters, any_filter=len(filters) > 1 and self.random.random() < 0.25)
        if self.level.depth[0] and kind != "never" and kind != "above" and not any(one.place.path for one in filters):
            return None
        return getattr(self, kind)(asked, places)  # type: ignore[no-any-return]

    def count(self, asked: Question, _: list[Place]) -> Question:
        return asked

    def listing(self, asked: Question, places: list[Place]) -> Question:
        free = self.open_places(asked, places)
        columns = tuple(self.random.sample(free, self.random.randint(1, 2)))
        sortable = [one for one in places if self.column(one).type in ("number", "day") and not self.column(one).empty]
        if not sortable or self.random.random() < 0.3:
            return asked._replace(columns=columns)
        order, limit = self.random.choice(sortable), self.random.choice((0, 0, 1, 3, 5, 10))
        return asked._replace(columns=columns, order=order, down=self.random.random() < 0.5, limit=limit)

    def distinct(self, asked: Question, places: list[Place]) -> Question | None:
        texts = [one for one in self.open_places(asked, places) if self.column(one).type in ("kind", "text")]
        return asked._replace(columns=(self.random.choice(texts),)) if texts else None

    def aggregate(self, asked: Question, places: list[Place]) -> Question | None:
        number = self.number(places)
        measure = self.random.choice(("SUM", "AVG", "MAX", "MIN"))
        return asked._replace(aggregate=measure, number=number) if number else None

    def group(self, asked: Question, places: list[Place]) -> Question | None:
        kinds = [one for one in self.open_places(asked, places) if self.column(one).type == "kind"]
        keys = [one for one in places if self.column(one).type == "id" and one.path]
        number = self.number([one for one in places if not one.path])
        measure = self.random.choice(("COUNT", "COUNT", "SUM", "AVG", "MAX", "MIN") if number else ("COUNT",))
        if not kinds + keys:
            return None
        return asked._replace(
            columns=(self.random.choice(kinds + keys),),
            aggregate=measure,
            number=number if measure != "COUNT" else None,
            least=self.random.choice((0, 0, 2, 3, 5)),
            limit=self.random.choice((0, 0, 1, 3, 5)),
        )

    def above(self, asked: Question, places: list[Place]) -> Question | None:
        number = self.number([one for one in places if not one.path])
        return asked._replace(number=number, any_filter=False) if number else None

    def never(self, asked: Question, _: list[Place]) -> Question | None:
        parents = [parent for parent, _ in self.tables[asked.table].parents.values()]
        parent = self.random.choice(parents) if parents else ""
        if not parent or any(one.place.table == parent for one in asked.filters):
            return None
        return asked._replace(parent=parent)

    def open_places(self, asked: Question, places: list[Place]) -> list[Place]:
        """Columns that have a value in every row, and no value that a condition gives away."""
        given = {one.place for one in asked.filters if one.operator == "="}
        return [one for one in places if one not in given and not self.column(one).empty]

    def number(self, places: list[Place]) -> Place | None:
        numbers = [one for one in places if self.column(one).type == "number" and not self.column(one).empty]
        return self.random.choice(numbers) if numbers else None

    def places(self, table: str) -> list[Place]:
        """The columns of a table and of those that its foreign keys lead to."""
        found = [Place(table, column) for column in self.tables[table].columns]
        border = [(table, ())]
        for _ in range(self.random.randint(*self.level.depth)):
            border = [
                (parent, (*path, column))
                for at, path in border
                for column, (parent, _) in self.tables[at].parents.items()
            ]
            found += [Place(at, column, path) for at, path in border for column in self.tables[at].columns]
        return found

    def filters(self, places: list[Place]) -> tuple[Filter, ...]:
        usable = [one for one in places if self.column(one).type in ("kind", "number", "day")]
        chosen = self.random.sample(usable, min(len(usable), self.random.randint(*self.level.filters)))
        return tuple(self.filter(one) for one in chosen)

    def filter(self, place: Place) -> Filter:
        column = self.column(place)
        values = self.database.values(place)
        if column.empty and self.random.random() < 0.4:
            return Filter(place, self.random.choice(("empty", "there")))
        if column.type == "kind":
            not_equal = "=" if column.empty else "!="  # to SQL, an empty cell is not unequal to anything
            return Filter(place, self.random.choice(("=", "=", not_equal)), (self.random.choice(values),))
        if column.type == "day" and self.random.random() < 0.3:
            return Filter(place, "year", (self.random.choice(values)[:4],))
        if self.random.random() < 0.3:
            return Filter(place, "between", tuple(sorted(self.random.sample(values, 2))))
        return Filter(place, self.random.choice((">", "<")), (self.random.choice(values),))

    def column(self, place: Place) -> Any:
        return self.tables[place.table].columns[place.column]


if __name__ == "__main__":
    raise SystemExit(main(BirdSqlGenerator()))

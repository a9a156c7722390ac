"""A question as a value: what it asks for, how a person asks it, and the SQL that answers it.

Every question names its columns, its order and what to do about equals, so that one result is right and no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from made_schemas import Table

Tables = Mapping[str, Table]
Kind = Literal["count", "listing", "distinct", "aggregate", "group", "above", "never"]
Operator = Literal["=", "!=", ">", "<", "between", "year", "empty", "there"]
AGGREGATES: Final = {
    "COUNT": "number",
    "SUM": "total {words}",
    "AVG": "average {words}",
    "MAX": "greatest {words}",
    "MIN": "smallest {words}",
}


class Place(NamedTuple):
    """A column; `path` are the foreign keys that lead from the question's table to the column's."""

    table: str
    column: str
    path: tuple[str, ...] = ()


class Filter(NamedTuple):
    place: Place
    operator: Operator
    values: tuple[Any, ...] = ()


class Question(NamedTuple):
    kind: Kind
    table: str
    columns: tuple[Place, ...] = ()  # that are listed, or grouped by
    filters: tuple[Filter, ...] = ()
    any_filter: bool = False  # one of the filters is enough
    aggregate: str = ""
    number: Place | None = None  # what is aggregated or compared
    least: int = 0  # rows of a group
    order: Place | None = None
    down: bool = False
    limit: int = 0
    parent: str = ""  # of a "never": whose rows have no row of `table`

    def sql(self, tables: Tables) -> str:
        return getattr(_Sql(self, tables), self.kind)()  # type: ignore[no-any-return]

    def text(self, tables: Tables, wording: int) -> str:
        return getattr(_Words(self, tables, wording), self.kind)()  # type: ignore[no-any-return]


def literal(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


class _Sql:
    def __init__(self, question: Question, tables: Tables) -> None:
        self.question, self.tables = question, tables
        self.key = f"{question.table}.{tables[question.table].key}"

    def count(self) -> str:
        return f"SELECT COUNT(*) {self.source()}"

    def listing(self) -> str:
        return f"SELECT {self.columns()} {self.source()}{self.ordered()}"

    def distinct(self) -> str:
        return f"SELECT DISTINCT {self.columns()} {self.source()}"

    def aggregate(self) -> str:
        return f"SELECT {self.measured()} {self.source()}"

    def group(self) -> str:
        asked = self.question
        having = f" HAVING COUNT(*) >= {asked.least}" if asked.least else ""
        order = f" ORDER BY 2 DESC, {self.columns()} LIMIT {asked.limit}" if asked.limit else ""
        return f"SELECT {self.columns()}, {self.measured()} {self.source()} GROUP BY {self.columns()}{having}{order}"

    def above(self) -> str:
        number = _name(self.question.number)
        mean = f"{number} > (SELECT AVG({number}) FROM {self.question.table})"
        return f"SELECT {self.key} {self.source(mean)}"

    def never(self) -> str:
        parent = self.question.parent
        key = self.tables[parent].key
        column = next(name for name, one in self.tables[self.question.table].parents.items() if one[0] == parent)
        inside = self.source(f"{self.question.table}.{column} = {parent}.{key}")
        return f"SELECT {parent}.{key} FROM {parent} WHERE NOT EXISTS (SELECT 1 {inside})"

    def columns(self) -> str:
        return ", ".join(map(_name, self.question.columns))

    def measured(self) -> str:
        if self.question.aggregate == "COUNT":
            return "COUNT(*)"
        measured = f"{self.question.aggregate}({_name(self.question.number)})"
        return measured if self.question.aggregate in ("MAX", "MIN") else f"ROUND({measured}, 2)"

    def source(self, further: str = "") -> str:
        joint = " OR " if self.question.any_filter else " AND "
        wanted = joint.join(map(_condition, self.question.filters))
        wanted = f"({wanted})" if further and self.question.any_filter else wanted
        where = " AND ".join(filter(None, (wanted, further)))
        return " ".join((f"FROM {self.question.table}", *self.joins(), *([f"WHERE {where}"] if where else [])))

    def joins(self) -> list[str]:
        asked = self.question
        places = [*asked.columns, *(one.place for one in asked.filters), asked.number, asked.order]
        joined: dict[str, str] = {}
        for place in places:
            at = asked.table
            for column in place.path if place else ():
                parent = self.tables[at].parents[column][0]
                joined[parent] = f"JOIN {parent} ON {parent}.{self.tables[parent].key} = {at}.{column}"
                at = parent
        return [*joined.values()]

    def ordered(self) -> str:
        asked = self.question
        if asked.order is None:
            return ""
        down = " DESC" if asked.down else ""
        return f" ORDER BY {_name(asked.order)}{down}, {self.key}" + (f" LIMIT {asked.limit}" if asked.limit else "")


def _name(place: Place | None) -> str:
    return f"{place.table}.{place.column}" if place else ""


def _condition(one: Filter) -> str:
    name, values = _name(one.place), [literal(value) for value in one.values]
    match one.operator:
        case "between":
            return f"{name} BETWEEN {values[0]} AND {values[1]}"
        case "year":
            return f"substr({name}, 1, 4) = {values[0]}"
        case "empty":
            return f"{name} IS NULL"
        case "there":
            return f"{name} IS NOT NULL"
    return f"{name} {one.operator} {values[0]}"


class _Words:
    """`wording` picks one of the ways to say the same."""

    def __init__(self, question: Question, tables: Tables, wording: int) -> None:
        self.question, self.tables, self.wording = question, tables, wording
        self.table = tables[question.table]

    def count(self) -> str:
        return self.pick(
            f"How many {self.rows()} are there?",
            f"Count the {self.rows()}.",
            f"What is the number of {self.rows()}?",
        )

    def listing(self) -> str:
        asked = self.question
        opening = self.pick("List", "Give", "Show")
        text = f"{opening} {self.listed()} of the {self.rows()}: one row for each {self.table.one}."
        if asked.order is None:
            return text
        order = f"{self.place(asked.order)} from {'high to low' if asked.down else 'low to high'}"
        limit = f" Give only the first {asked.limit} of them." if asked.limit else ""
        return f"{text} Sort them by {order}, equal ones by the {self.table.one}'s id from low to high.{limit}"

    def distinct(self) -> str:
        opening = self.pick("Which different values occur as", "List, each once,", "Which are, without repeats,")
        return f"{opening} {self.listed()} of the {self.rows()}{self.pick('?', '.', '?')}"

    def aggregate(self) -> str:
        text = self.pick("What is the {} of the {}?", "Compute the {} of the {}.", "Tell me the {} of the {}.")
        return text.format(self.measured(), self.rows()) + self.rounded()

    def group(self) -> str:
        asked = self.question
        text = self.pick(
            f"For each {self.key()} of the {self.rows()}: the {self.key()} and the {self.measured(grouped=True)}.",
            f"Group the {self.rows()} by {self.key()}. Give the {self.key()} and the {self.measured(grouped=True)}.",
            f"Per {self.key()}, what is the {self.measured(grouped=True)}, among the {self.rows()}? "
            f"Give the {self.key()} first.",
        )
        least = f" Leave out groups of fewer than {asked.least}." if asked.least else ""
        top = (
            f" Give only the {asked.limit} with the highest value, highest first, equal ones sorted by {self.key()}."
            if asked.limit
            else ""
        )
        return text + self.rounded() + least + top

    def above(self) -> str:
        number = self.place(self.question.number)
        mean = f"greater than the average {number} of all {self.table.many}"
        opening = self.pick(
            f"Give the ids of the {self.rows()}", f"Which {self.rows()}", f"List the ids of {self.rows()}"
        )
        joint = " and" if self.question.filters else ""
        if self.wording % 3 == 1:
            return f"{opening}{joint} have a {number} {mean}? Give their ids."
        return f"{opening}{joint} whose {number} is {mean}."

    def never(self) -> str:
        parent = self.tables[self.question.parent]
        return self.pick(
            f"Which {parent.many} have no {self.rows(self.table.one)}? Give their ids.",
            f"List the ids of the {parent.many} that have not a single {self.rows(self.table.one)}.",
            f"Give the ids of all {parent.many} without any {self.rows(self.table.one)}.",
        )

    def pick(self, *ways: str) -> str:
        return ways[self.wording % len(ways)]

    def rows(self, noun: str = "") -> str:
        """`loans whose book's genre is 'poetry' and whose day of lending is after 2024-05-02`."""
        joint = " or " if self.question.any_filter else " and "
        parts = joint.join(f"whose {self.condition(one)}" for one in self.question.filters)
        return f"{noun or self.table.many} {parts}".rstrip()

    def condition(self, one: Filter) -> str:
        words = self.place(one.place)
        values = [f"'{value}'" if one.operator in ("=", "!=") else str(value) for value in one.values]
        day = isinstance(one.values[0], str) if one.values else False
        match one.operator:
            case "=":
                return f"{words} is {values[0]}"
            case "!=":
                return f"{words} is not {values[0]}"
            case ">":
                return f"{words} is {'after' if day else 'greater than'} {values[0]}"
            case "<":
                return f"{words} is {'before' if day else 'less than'} {values[0]}"
            case "between":
                return f"{words} lies between {values[0]} and {values[1]} (both included)"
            case "year":
                return f"{words} is in {values[0]}"
            case "empty":
                return f"{words} is empty"
            case "there":
                return f"{words} is not empty"

    def place(self, place: Place | None) -> str:
        """`book's genre`, as seen from the question's table."""
        if place is None:
            return ""
        at, parts = self.question.table, []
        for column in place.path:
            at, name = self.tables[at].parents[column]
            parts.append(f"{name}'s ")
        return "".join(parts) + self.tables[place.table].columns[place.column].words

    def listed(self) -> str:
        return " and ".join(f"the {self.place(one)}" for one in self.question.columns)

    def key(self) -> str:
        return self.place(self.question.columns[0])

    def measured(self, *, grouped: bool = False) -> str:
        words = AGGREGATES[self.question.aggregate].format(words=self.place(self.question.number))
        return f"{words} of {self.table.many}" if grouped and self.question.aggregate == "COUNT" else words

    def rounded(self) -> str:
        return " Round it to two digits after the point." if self.question.aggregate in ("SUM", "AVG") else ""

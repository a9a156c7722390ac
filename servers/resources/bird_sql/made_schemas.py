"""What the tables and columns of the made databases are called in a question, and what can be asked of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Type = Literal["id", "kind", "text", "number", "day"]


class Column(NamedTuple):
    """`kind` has few values and can be counted by; `text` is only listed."""

    type: Type
    words: str
    empty: bool = False  # some rows have none


class Table(NamedTuple):
    one: str
    many: str
    columns: Mapping[str, Column]
    parents: Mapping[str, tuple[str, str]] = {}  # column -> the table it names, and how a question calls that

    @property
    def key(self) -> str:
        return next(name for name, column in self.columns.items() if column.type == "id")


_ID: Final = Column("id", "id")
_TOWN: Final = Column("kind", "town")
_NAME: Final = Column("text", "name")

LIBRARY: Final = {
    "branches": Table(
        "branch", "branches", {"branch_id": _ID, "town": _TOWN, "opened": Column("number", "year of opening")}
    ),
    "books": Table(
        "book",
        "books",
        {
            "book_id": _ID,
            "title": Column("text", "title"),
            "genre": Column("kind", "genre"),
            "year": Column("number", "year"),
            "pages": Column("number", "number of pages"),
        },
    ),
    "members": Table(
        "member", "members", {"member_id": _ID, "name": _NAME, "town": _TOWN, "joined": Column("day", "day of joining")}
    ),
    "loans": Table(
        "loan",
        "loans",
        {
            "loan_id": _ID,
            "lent": Column("day", "day of lending"),
            "returned": Column("day", "day of return", empty=True),
        },
        {"book_id": ("books", "book"), "member_id": ("members", "member"), "branch_id": ("branches", "branch")},
    ),
}
WORKSHOP: Final = {
    "machines": Table(
        "machine",
        "machines",
        {"machine_id": _ID, "kind": Column("kind", "kind"), "bought": Column("number", "year of purchase")},
    ),
    "runs": Table(
        "run",
        "runs",
        {
            "run_id": _ID,
            "day": Column("day", "day"),
            "minutes": Column("number", "length in minutes"),
            "faults": Column("number", "number of faults"),
        },
        {"machine_id": ("machines", "machine")},
    ),
}
SHOP: Final = {
    "customers": Table(
        "customer",
        "customers",
        {
            "customer_id": _ID,
            "name": _NAME,
            "town": _TOWN,
            "since": Column("day", "first day as a customer"),
            "discount": Column("number", "discount", empty=True),
        },
    ),
    "products": Table(
        "product",
        "products",
        {
            "product_id": _ID,
            "label": Column("text", "label"),
            "category": Column("kind", "category"),
            "price": Column("number", "price"),
            "stock": Column("number", "stock"),
        },
    ),
    "orders": Table(
        "order",
        "orders",
        {
            "order_id": _ID,
            "placed": Column("day", "day of placing"),
            "channel": Column("kind", "channel"),
            "shipped": Column("day", "day of shipping", empty=True),
        },
        {"customer_id": ("customers", "customer")},
    ),
    "items": Table(
        "item",
        "items",
        {"item_id": _ID, "quantity": Column("number", "quantity"), "paid": Column("number", "amount paid")},
        {"order_id": ("orders", "order"), "product_id": ("products", "product")},
    ),
}
SCHOOL: Final = {
    "teachers": Table(
        "teacher",
        "teachers",
        {
            "teacher_id": _ID,
            "name": _NAME,
            "subject": Column("kind", "subject"),
            "hired": Column("number", "year of hiring"),
        },
    ),
    "courses": Table(
        "course",
        "courses",
        {
            "course_id": _ID,
            "title": Column("text", "title"),
            "room": Column("kind", "room"),
            "hours": Column("number", "number of hours"),
        },
        {"teacher_id": ("teachers", "teacher")},
    ),
    "pupils": Table(
        "pupil",
        "pupils",
        {
            "pupil_id": _ID,
            "name": _NAME,
            "town": _TOWN,
            "born": Column("day", "day of birth"),
            "grade": Column("number", "grade"),
        },
    ),
    "marks": Table(
        "mark",
        "marks",
        {
            "mark_id": _ID,
            "day": Column("day", "day"),
            "points": Column("number", "number of points"),
            "remark": Column("kind", "remark", empty=True),
        },
        {"pupil_id": ("pupils", "pupil"), "course_id": ("courses", "course")},
    ),
}
LEAGUE: Final = {
    "teams": Table(
        "team",
        "teams",
        {"team_id": _ID, "name": _NAME, "town": _TOWN, "founded": Column("number", "year of foundation")},
    ),
    "players": Table(
        "player",
        "players",
        {
            "player_id": _ID,
            "name": _NAME,
            "position": Column("kind", "position"),
            "height": Column("number", "height"),
            "wage": Column("number", "wage", empty=True),
        },
        {"team_id": ("teams", "team")},
    ),
    "games": Table(
        "game",
        "games",
        {
            "game_id": _ID,
            "day": Column("day", "day"),
            "goals_for": Column("number", "number of goals of the home team"),
            "goals_against": Column("number", "number of goals of the guests"),
            "spectators": Column("number", "number of spectators"),
        },
        {"home_id": ("teams", "home team")},
    ),
}
DATABASES: Final[Mapping[str, Mapping[str, Table]]] = {
    "library": LIBRARY,
    "workshop": WORKSHOP,
    "shop": SHOP,
    "school": SCHOOL,
    "league": LEAGUE,
}

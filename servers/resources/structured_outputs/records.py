"""Records for made rows: what a book, an order or a ship has, by name and kind, and how a schema and a text say it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from gym.server.words import CITIES, COLOURS, FIRST_NAMES, FOODS, LAST_NAMES, THINGS, person, phrase

Spec = str | dict[str, Any] | list[dict[str, Any]]
# A kind is a word of `_scalar`, with its bounds or choices; a dict is an object, a list an array of such objects.
CONTACT: Final = {"name": "person", "phone": "code", "city": "city", "reachable": "bool"}
ADDRESS: Final = {"street": "street", "house_number": "int 1 240", "city": "city", "postal_code": "code"}
DOMAINS: Final[dict[str, dict[str, Spec]]] = {
    "book": {
        "title": "title",
        "author": "person",
        "pages": "int 60 900",
        "price": "num 4 60",
        "language": "enum English Spanish French German Turkish Hindi",
        "in_print": "bool",
        "published_on": "date",
        "shelf": "code",
        "weight_grams": "int 100 2500",
        "rating": "num 1 5",
        "binding": "enum hardcover paperback spiral",
        "keywords": "words",
        "publisher": {"name": "company", "city": "city", "founded": "int 1800 2020"},
        "chapters": [{"heading": "title", "pages": "int 4 60", "illustrated": "bool"}],
    },
    "order": {
        "order_number": "code",
        "customer": "person",
        "total": "num 10 4000",
        "paid": "bool",
        "ordered_on": "date",
        "currency": "enum EUR USD GBP JPY INR",
        "status": "enum open packed sent delivered returned",
        "parcels": "int 1 9",
        "discount_percent": "int 0 50",
        "shipping_cost": "num 0 80",
        "gift": "bool",
        "labels": "words",
        "delivery": ADDRESS,
        "lines": [{"article": "thing", "count": "int 1 40", "unit_price": "num 1 300"}],
    },
    "ship": {
        "name": "title",
        "captain": "person",
        "home_port": "city",
        "length_metres": "num 8 320",
        "crew": "int 2 90",
        "built_on": "date",
        "hull_colour": "colour",
        "kind": "enum ferry trawler tanker yacht tug barge",
        "registration": "code",
        "top_speed_knots": "num 5 40",
        "insured": "bool",
        "holds": "int 1 12",
        "equipment": "words",
        "owner": CONTACT,
        "voyages": [{"destination": "city", "left_on": "date", "days": "int 1 60"}],
    },
    "recipe": {
        "dish": "title",
        "cook": "person",
        "servings": "int 1 24",
        "minutes": "int 5 240",
        "vegetarian": "bool",
        "difficulty": "enum simple medium demanding",
        "calories": "int 80 1400",
        "oven_degrees": "int 100 250",
        "cost": "num 2 50",
        "first_cooked_on": "date",
        "season": "enum spring summer autumn winter",
        "main_taste": "food",
        "utensils": "words",
        "origin": {"city": "city", "family": "last_name", "since": "int 1850 2020"},
        "ingredients": [{"name": "food", "grams": "int 5 900", "fresh": "bool"}],
    },
    "course": {
        "name": "title",
        "teacher": "person",
        "room": "code",
        "hours": "int 2 80",
        "fee": "num 0 900",
        "starts_on": "date",
        "level": "enum beginner intermediate advanced",
        "online": "bool",
        "places": "int 4 60",
        "waiting": "int 0 30",
        "average_mark": "num 1 6",
        "weekday": "enum Monday Tuesday Wednesday Thursday Friday",
        "materials": "words",
        "organiser": CONTACT,
        "sessions": [{"topic": "title", "held_on": "date", "minutes": "int 30 180"}],
    },
    "house": {
        "reference": "code",
        "owner": "person",
        "rooms": "int 1 14",
        "area": "num 20 600",
        "rent": "num 200 5000",
        "built_on": "date",
        "heating": "enum gas wood heat_pump district none",
        "garden": "bool",
        "floors": "int 1 5",
        "door_colour": "colour",
        "parking_places": "int 0 6",
        "energy_class": "enum A B C D E F G",
        "furniture": "words",
        "address": ADDRESS,
        "repairs": [{"part": "thing", "done_on": "date", "cost": "num 20 9000"}],
    },
    "instrument": {
        "serial_number": "code",
        "maker": "company",
        "model": "title",
        "measures": "enum pressure temperature flow voltage torque",
        "range_low": "num 0 20",
        "range_high": "num 21 900",
        "calibrated_on": "date",
        "in_use": "bool",
        "channels": "int 1 32",
        "battery_hours": "int 1 400",
        "case_colour": "colour",
        "weight_kilograms": "num 0 40",
        "accessories": "words",
        "keeper": CONTACT,
        "readings": [{"channel": "int 1 32", "value": "num 0 900", "taken_on": "date"}],
    },
    "expedition": {
        "code_name": "title",
        "leader": "person",
        "members": "int 2 40",
        "budget": "num 900 90000",
        "began_on": "date",
        "terrain": "enum desert ice jungle mountain sea",
        "base": "city",
        "successful": "bool",
        "days": "int 3 300",
        "highest_point": "int 0 8000",
        "sponsor": "company",
        "tents": "int 1 30",
        "supplies": "words",
        "doctor": CONTACT,
        "camps": [{"name": "title", "altitude": "int 0 8000", "nights": "int 1 40"}],
    },
}


@dataclass(frozen=True)
class Field:
    """A part of a record: what the schema says of it, and its value."""

    schema: dict[str, Any]
    value: Any


def make_record(random: Random, spec: dict[str, Spec], *, items: tuple[int, int], bounded: bool) -> Field:
    """`items`: how many an array has; `bounded`: whether the schema has limits besides types."""
    fields = {name: _field(random, one, items, bounded) for name, one in spec.items()}
    schema = {"type": "object", "properties": {name: one.schema for name, one in fields.items()}}
    schema |= {"required": list(fields), "additionalProperties": False}
    return Field(schema, {name: one.value for name, one in fields.items()})


def _field(random: Random, spec: Spec, items: tuple[int, int], bounded: bool) -> Field:
    if isinstance(spec, dict):
        return make_record(random, spec, items=items, bounded=bounded)
    count = random.randint(*items)
    if isinstance(spec, list):
        return make_table(random, spec[0], count, bounded=bounded)
    if spec == "words":
        schema = {"type": "array", "items": {"type": "string"}, "minItems": count, "maxItems": count}
        return Field(schema, random.sample(THINGS, count))
    return _scalar(random, spec, bounded)


def make_table(random: Random, spec: dict[str, Spec], count: int, *, bounded: bool) -> Field:
    records = [make_record(random, spec, items=(1, 1), bounded=bounded) for _ in range(count)]
    schema = {"type": "array", "items": records[0].schema, "minItems": count, "maxItems": count}
    return Field(schema, [one.value for one in records])


def _scalar(random: Random, spec: str, bounded: bool) -> Field:
    kind, *given = spec.split()
    if kind == "enum":
        return Field({"type": "string", "enum": given}, random.choice(given))
    if kind == "bool":
        return Field({"type": "boolean"}, random.random() < 0.5)
    if kind in ("int", "num"):
        low, high = map(int, given)
        value = random.randint(low, high) if kind == "int" else random.randint(low * 100 + 1, high * 100 - 1) / 100
        limits = {"minimum": low, "maximum": high} if bounded else {}
        return Field({"type": "integer" if kind == "int" else "number", **limits}, value)
    pattern = {"pattern": PATTERNS[kind]} if bounded and kind in PATTERNS else {}
    return Field({"type": "string", **pattern}, _text(random, kind))


PATTERNS: Final = {"date": r"^\d{4}-\d{2}-\d{2}$", "code": r"^[A-Z]{2}-\d{4}$"}


def _text(random: Random, kind: str) -> str:
    if kind == "date":
        return f"{random.randint(1960, 2025)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
    if kind == "code":
        return "".join(random.choices("ABCDEFGHKLMNPRSTUVWXYZ", k=2)) + f"-{random.randint(1000, 9999)}"
    if kind == "person":
        return person(random)
    if kind == "title":
        return phrase(random).replace("-", " ").title()
    if kind == "street":
        return f"{random.choice(THINGS).title()} Street"
    if kind == "company":
        return f"{random.choice(LAST_NAMES)} and {random.choice(FIRST_NAMES)}"
    lists = {"city": CITIES, "colour": COLOURS, "food": FOODS, "thing": THINGS, "last_name": LAST_NAMES}
    return random.choice(lists[kind])

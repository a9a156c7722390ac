"""Values of arguments: as people say them (`3 May 2027`, `euros`), and as a call has them (`2027-05-03`, `EUR`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from random import Random
from typing import Any, Final, NamedTuple

from gym.server.words import CITIES, COLOURS, FIRST_NAMES, FOODS, JOBS, THINGS, phrase

Said = tuple[Any, str]  # a value as a call has it, and as a request says it


class Kind(NamedTuple):
    """A kind of argument: its JSON Schema, and a random value of it."""

    schema: Mapping[str, Any]
    make: Callable[[Random], Said]


def _plain(name: str, description: str, make: Callable[[Random], Any]) -> Kind:
    def said(random: Random) -> Said:
        value = make(random)
        return value, str(value)

    return Kind({"type": name, "description": description}, said)


def _coded(description: str, names: Mapping[str, str]) -> Kind:
    """Codes that the schema lists; a request says their names."""
    codes = list(names)
    schema = {"type": "string", "enum": codes, "description": description}
    return Kind(schema, lambda random: (code := random.choice(codes), names[code]))


def _amount(random: Random) -> float:
    return _shorten(random.randint(1, 20_000) / random.choice((1, 1, 4)))


def _shorten(number: float) -> float:
    """15 instead of 15.0, as people write it; JSON knows no difference."""
    return int(number) if number.is_integer() else number


def _date(random: Random) -> Said:
    day = date(2026, 1, 1) + timedelta(days=random.randrange(1_000))
    return day.isoformat(), f"{day.day} {day:%B} {day.year}"


def _time(random: Random) -> Said:
    hour, minute = random.randrange(7, 22), random.choice((0, 5, 10, 15, 20, 30, 40, 45, 50))
    half = "am" if hour < 12 else "pm"
    return f"{hour:02}:{minute:02}", f"{(hour - 1) % 12 + 1}:{minute:02} {half}"


CURRENCIES: Final = {
    "EUR": "euros",
    "USD": "US dollars",
    "GBP": "British pounds",
    "JPY": "yen",
    "CHF": "Swiss francs",
    "SEK": "Swedish kronor",
    "NOK": "Norwegian kroner",
    "INR": "Indian rupees",
    "BRL": "Brazilian reais",
    "PLN": "zlotys",
}
UNITS: Final = {"km": "kilometres", "mi": "miles", "m": "metres", "ft": "feet", "nmi": "nautical miles"}
LANGUAGES: Final = {
    "da": "Danish",
    "de": "German",
    "es": "Spanish",
    "fi": "Finnish",
    "fr": "French",
    "it": "Italian",
    "ja": "Japanese",
    "pl": "Polish",
    "pt": "Portuguese",
    "sw": "Swahili",
}
KINDS: Final[Mapping[str, Kind]] = {
    "amount": _plain("number", "How much", _amount),
    "count": _plain("integer", "How many", lambda random: random.randint(2, 40)),
    "days": _plain("integer", "Days", lambda random: random.randint(2, 30)),
    "minutes": _plain("integer", "Minutes", lambda random: random.randint(1, 36) * 5),
    "percent": _plain("number", "In per cent", lambda random: _shorten(random.randint(1, 120) / 2)),
    "city": _plain("string", "Name of a city, in English", lambda random: random.choice(CITIES)),
    "person": _plain("string", "First name", lambda random: random.choice(FIRST_NAMES)),
    "thing": _plain("string", "What it is, one word", lambda random: random.choice(THINGS)),
    "food": _plain("string", "An ingredient, one word", lambda random: random.choice(FOODS)),
    "job": _plain("string", "Whose trade, one word", lambda random: random.choice(JOBS)),
    "colour": _plain("string", "A colour, in lower case", lambda random: random.choice(COLOURS)),
    "code": _plain(
        "string", "Number of an order", lambda random: f"{random.choice('ABKRTX')}-{random.randrange(10**5):05}"
    ),
    "name": _plain("string", "Name of the list or the file", phrase),
    "currency": _coded("ISO 4217 code", CURRENCIES),
    "unit": _coded("Unit of length", UNITS),
    "language": _coded("ISO 639-1 code", LANGUAGES),
    "date": Kind({"type": "string", "description": "A day, YYYY-MM-DD"}, _date),
    "time": Kind({"type": "string", "description": "A time of day, HH:MM, 24 hours"}, _time),
    "cabin": _coded("Class", {"economy": "economy class", "business": "business class", "first": "first class"}),
    "level": _coded("How urgent", {"low": "low priority", "normal": "normal priority", "urgent": "urgent"}),
}

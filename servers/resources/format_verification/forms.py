"""Forms of a line for made rows: each part with the words that ask for it, its pattern, and a line that has it."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from gym.server.words import ADJECTIVES, THINGS, VERBS

Writer = Callable[[Random, int], str]  # of the line with this number, counted from 1


class Part(NamedTuple):
    asked: str
    pattern: str
    write: Writer


def _sign(sign: str, name: str) -> Part:
    return Part(f"starts with {name} ({sign}) and a space", f"{re.escape(sign)} ", lambda _random, _at: f"{sign} ")


def _numbered(example: str, pattern: str, form: str) -> Part:
    return Part(
        f"starts with its number, written as in {example}, and a space",
        f"{pattern} ",
        lambda _random, at: f"{form.format(at)} ",
    )


def _letter(at: int) -> str:
    return "abcdefghijklmnopqrstuvwxyz"[at - 1]


ROMAN: Final = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII", "XIII", "XIV", "XV")
PREFIXES: Final = (
    _sign("-", "a hyphen"),
    _sign("*", "a star"),
    _sign("+", "a plus sign"),
    _sign("•", "a round bullet"),
    _sign("▪", "a filled square"),
    _sign("◦", "a hollow bullet"),
    _sign("→", "an arrow"),
    _sign("»", "a double angle"),
    _sign("–", "an en dash"),
    _sign("~", "a tilde"),
    _sign("§", "a section sign"),
    _sign(">", "a greater-than sign"),
    _sign("##", "two hash signs"),
    _sign("###", "three hash signs"),
    _sign("- [ ]", "an empty Markdown checkbox"),
    _sign("- [x]", "a ticked Markdown checkbox"),
    _numbered("1.", r"\d+\.", "{}."),
    _numbered("1)", r"\d+\)", "{})"),
    _numbered("(1)", r"\(\d+\)", "({})"),
    _numbered("[1]", r"\[\d+\]", "[{}]"),
    _numbered("#1", r"#\d+", "#{}"),
    _numbered("Step 1:", r"Step \d+:", "Step {}:"),
    _numbered("Item 1 -", r"Item \d+ -", "Item {} -"),
    _numbered("<1>", r"<\d+>", "<{}>"),
    _numbered("001", r"\d{3}", "{:03}"),
    Part(
        "starts with a small letter and a bracket, as in a), and a space",
        r"[a-z]\) ",
        lambda _random, at: f"{_letter(at)}) ",
    ),
    Part(
        "starts with a Roman number and a full stop, as in IV., and a space",
        r"[IVXLC]+\. ",
        lambda _random, at: f"{ROMAN[at - 1]}. ",
    ),
)
HEADS: Final = (
    Part("one word in bold (**word**)", r"\*\*\w+\*\*", lambda random, _: f"**{random.choice(THINGS)}**"),
    Part("one word in italics (_word_)", r"_[a-zA-Z]+_", lambda random, _: f"_{random.choice(THINGS)}_"),
    Part("one word in backticks", r"`\w+`", lambda random, _: f"`{random.choice(THINGS)}`"),
    Part("one word in capital letters", r"[A-Z]{2,}", lambda random, _: random.choice(THINGS).upper()),
    Part("one word in double quotes", r'"\w+"', lambda random, _: f'"{random.choice(THINGS)}"'),
    Part("two words joined by a hyphen", r"\w+-\w+", lambda random, _: _joined(random, "-")),
    Part("two words joined by an underscore", r"[a-zA-Z]+_[a-zA-Z]+", lambda random, _: _joined(random, "_")),
    Part("a date as YYYY-MM-DD", r"\d{4}-\d{2}-\d{2}", lambda random, _: _date(random)),
    Part("a time as HH:MM", r"\d{2}:\d{2}", lambda random, _: f"{random.randint(0, 23):02}:{random.randint(0, 59):02}"),
    Part("a whole number of per cent (12%)", r"\d+%", lambda random, _: f"{random.randint(1, 99)}%"),
    Part("a price in euros with two digits (4.50 €)", r"\d+\.\d{2} €", lambda random, _: _price(random)),
    Part("a code of two capital letters and three digits", r"[A-Z]{2}\d{3}", lambda random, _: _code(random)),
)
BETWEEN: Final = tuple(
    Part(f"then {name}", re.escape(sign), lambda _random, _at, sign=sign: sign)  # type: ignore[misc]
    for sign, name in (
        (": ", "a colon and a space"),
        (" - ", "a hyphen between spaces"),
        (" | ", "a vertical bar between spaces"),
        (" = ", "an equals sign between spaces"),
        (" => ", "the sign => between spaces"),
        (" / ", "a slash between spaces"),
        (" ~ ", "a tilde between spaces"),
        ("; ", "a semicolon and a space"),
    )
)
FREE: Final = Part("then a few words", r"\S.*", lambda random, _: " ".join(_said(random, random.randint(3, 6))))
COUNTED: Final = tuple(
    Part(
        f"then exactly {name} words without any punctuation",
        r"[a-zA-Z]+" + r" [a-zA-Z]+" * (count - 1),
        lambda random, _, count=count: " ".join(_said(random, count)),  # type: ignore[misc]
    )
    for count, name in ((2, "two"), (3, "three"), (4, "four"), (5, "five"), (6, "six"))
)
ENDS: Final = (
    Part("ends with a full stop", r"\.", lambda _random, _at: "."),
    Part("ends with a semicolon", ";", lambda _random, _at: ";"),
    Part("ends with an exclamation mark", "!", lambda _random, _at: "!"),
    Part("ends with a question mark", r"\?", lambda _random, _at: "?"),
    Part(
        "ends with a space and a whole number in round brackets",
        r" \(\d+\)",
        lambda random, _: f" ({random.randint(1, 99)})",
    ),
    Part(
        "ends with a space and one word in square brackets",
        r" \[\w+\]",
        lambda random, _: f" [{random.choice(ADJECTIVES)}]",
    ),
    Part("ends with a space and a hashtag of one word", r" #\w+", lambda random, _: f" #{random.choice(THINGS)}"),
    Part("ends with a space and a tick (✓)", " ✓", lambda _random, _at: " ✓"),
    Part(
        "ends with a space, the sign @ and one word in small letters",
        " @[a-z]+",
        lambda random, _: f" @{random.choice(THINGS)}",
    ),
)


def _said(random: Random, count: int) -> list[str]:
    return [random.choice(VERBS), "the", *random.choices(ADJECTIVES, k=max(count - 3, 0)), random.choice(THINGS)][
        :count
    ]


def _joined(random: Random, sign: str) -> str:
    return f"{random.choice(ADJECTIVES)}{sign}{random.choice(THINGS)}"


def _date(random: Random) -> str:
    return f"{random.randint(1990, 2030)}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"


def _price(random: Random) -> str:
    return f"{random.randint(1, 90)}.{random.randint(0, 99):02} €"


def _code(random: Random) -> str:
    return "".join(random.choices("ABCDEFGHKLMNPRSTUVWXYZ", k=2)) + f"{random.randint(100, 999)}"

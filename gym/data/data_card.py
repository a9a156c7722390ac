"""A data set's card: what it is, under which licence, its figures and fields, plots, and how to load it here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

from gym.data.portrait import Portrait
from gym.data.statistics import TOKENS
from gym.data.svg import histogram_svg

FIGURES: Final = "figures"  # the folder of the plots, beside the card
_ROWS: Final = ("Average", "Min", "Max", "Standard deviation")
_SHOWN: Final = {
    TOKENS: "input length, tokens",
    "Number of turns": "user messages of a row",
    "Number of tools": "tools of a row",
    "Temperature": "temperature",
}
# What a hub calls the licences that have a name there.
_HUB: Final = {
    "Apache 2.0": "apache-2.0",
    "MIT": "mit",
    "Creative Commons Attribution 4.0 International": "cc-by-4.0",
    "Creative Commons Attribution-ShareAlike 4.0 International": "cc-by-sa-4.0",
    "CC BY-SA 4.0": "cc-by-sa-4.0",
    "CC BY-NC 3.0": "cc-by-nc-3.0",
    "GNU General Public License v3.0": "gpl-3.0",
}


@dataclass(frozen=True, slots=True)
class About:
    """What the rows do not say themselves."""

    title: str
    description: str = ""
    licence: str = ""
    source: str = ""
    server: str = ""  # the environment that the rows are for


@dataclass(frozen=True, slots=True)
class Part:
    """A split, or a file on its own."""

    name: str
    file: str
    portrait: Portrait
    place: str = ""  # seen from the card; the file's name when empty

    @property
    def entry(self) -> dict[str, str]:
        """What tells a hub which rows are the split."""
        return {"split": re.sub(r"\W+", "_", self.name), "path": self.place or PurePath(self.file).name}


@dataclass(frozen=True, slots=True)
class Card:
    text: str
    figures: Mapping[str, str] = field(default_factory=dict)  # name of the file in FIGURES -> SVG


def make_card(about: About, parts: Sequence[Part], rewards: Mapping[float, int] | None = None) -> Card:
    """The text refers to the plots by their place beside it."""
    whole = Portrait()
    for part in parts:
        whole.add(part.portrait)
    figures = dict(_figures(whole, rewards or {}))
    blocks = [
        _front(about, whole.rows, parts),
        f"# {_line(about.title)}",
        _line(about.description),
        _facts(about, whole),
        "## Splits",
        _table(("split", "rows", "file"), [(part.name, f"{part.portrait.rows:,}", _code(part.file)) for part in parts]),
        "## Figures",
        _statistics(whole),
        *(f"![{name.partition('.')[0]}]({FIGURES}/{name})" for name in figures),
        "## Fields",
        _fields(whole),
        "## Use",
        _use(about, parts),
    ]
    return Card("\n\n".join(block for block in blocks if block) + "\n", figures)


def _front(about: About, rows: int, parts: Iterable[Part]) -> str:
    """The head that a hub reads. JSON is YAML too, so a text is quoted as JSON."""
    hub = _HUB.get(about.licence, "other" if about.licence else "unknown")
    configs = [{"config_name": "default", "data_files": [part.entry for part in parts]}]
    fields = {
        "pretty_name": json.dumps(about.title),
        "license": hub,
        **({"license_name": json.dumps(about.licence)} if hub == "other" else {}),
        "size_categories": f"[{_size(rows)}]",
        "configs": json.dumps(configs),
    }
    return "\n".join(["---", *(f"{name}: {value}" for name, value in fields.items()), "---"])


def _size(rows: int) -> str:
    borders = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
    return next((name for border, name in borders if rows < border), "n>1M")


def _facts(about: About, whole: Portrait) -> str:
    found = whole.statistics.to_json()
    facts = {
        "Licence": about.licence or "not stated",
        "Source": about.source,
        "Environment": about.server,
        "Rows": f"{whole.rows:,}",
        "Different questions": f"{found['Number of unique create params']:,}",
        "Different user messages": f"{found['Number of unique user messages']:,}",
    }
    return _table(("", ""), [(name, _line(value)) for name, value in facts.items() if value])


def _statistics(whole: Portrait) -> str:
    found = whole.statistics.to_json()
    rows = [
        (_SHOWN[name], *(_number(figures[row]) for row in _ROWS))
        for name in _SHOWN
        if (figures := found[name])["Total # non-null values"]
    ]
    note = f"\n\nTokens as `{found['Tokenizer']}` counts them." if rows else ""
    return _table(("", "average", "least", "most", "deviation"), rows) + note


def _fields(whole: Portrait) -> str:
    rows = [
        (_code(name), " or ".join(sorted(one.types)), f"{one.count / whole.rows:.0%}", _code(one.sample))
        for name, one in whole.fields.items()
    ]
    return _table(("field", "type", "in rows", "a sample"), rows)


def _use(about: About, parts: Sequence[Part]) -> str:
    file = parts[0].file
    start = f"gym up {about.server}\n" if about.server else ""
    return f"```\n{start}gym rollouts {file} -o rollouts.jsonl\ngym data validate {file}\n```"


def _figures(whole: Portrait, rewards: Mapping[float, int]) -> Iterable[tuple[str, str]]:
    tokens = f"tokens of the input ({whole.statistics.tokenizer.name})"
    if whole.tokens:
        yield "tokens.svg", histogram_svg(whole.tokens, title="Input length", label=tokens)
    if whole.turns:
        yield "turns.svg", histogram_svg(whole.turns, title="Turns", label="user messages of a row")
    if rewards:
        yield "rewards.svg", histogram_svg(rewards, title="Rewards", label="reward", unit="rollouts")


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _code(text: str) -> str:
    """On one line, and neither a table's border nor the end of the code within."""
    ticks = "``" if "`" in text else "`"
    blank = " " if "`" in text else ""
    return f"{ticks}{blank}{' '.join(text.split())}{blank}{ticks}".replace("|", "\\|") if text else ""


def _line(text: str) -> str:
    """Text as text: no tag, no border of a table."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")

"""What a card shows of rows: their statistics, how their lengths are spread, and their fields with a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from gym.data.line_source import Line
from gym.data.row_parsing import PARAMS, need_row
from gym.data.statistics import Statistics, user_messages
from gym.data.token_counts import Tokenizer, open_tokenizer
from gym.wire.deep_values import write_cut
from gym.wire.policy_endpoint import KEY

MAX_SHOWN: Final = 60  # characters of a sample
MAX_FIELDS: Final = 200
_TYPES: Final = {
    "str": "text",
    "int": "number",
    "float": "number",
    "bool": "true or false",
    "NoneType": "null",
    "dict": "object",
}


@dataclass(slots=True)
class FieldSketch:
    types: set[str] = field(default_factory=set)
    count: int = 0
    sample: str = ""  # the first that is not null


class Portrait:
    """Grows with the different lengths and the different values, not with the rows."""

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        known = tokenizer or open_tokenizer()
        self.tokens: Counter[float] = Counter()
        self.turns: Counter[float] = Counter()
        self.fields: dict[str, FieldSketch] = {}
        self.statistics = Statistics(Tokenizer(known.name, lambda text: self._note(known.count(text))))

    @property
    def rows(self) -> int:
        return self.statistics.examples

    def observe(self, row: dict[str, Any]) -> None:
        self.statistics.observe(row)
        self.turns[len(user_messages(row[PARAMS]))] += 1
        for name, value in row[PARAMS].items():
            self._sketch(f"{PARAMS}.{name}", value)
        for name, value in row.items():
            if name != PARAMS:
                self._sketch(name, value)

    def add(self, other: Portrait) -> None:
        self.statistics.add(other.statistics)
        self.tokens.update(other.tokens)
        self.turns.update(other.turns)
        for name, theirs in other.fields.items():
            ours = self.fields.setdefault(name, FieldSketch())
            ours.types |= theirs.types
            ours.count += theirs.count
            ours.sample = ours.sample or theirs.sample

    def _note(self, tokens: int) -> int:
        self.tokens[tokens] += 1
        return tokens

    def _sketch(self, name: str, value: Any) -> None:
        one = self.fields.get(name)
        if one is None:
            if len(self.fields) >= MAX_FIELDS:
                return
            one = self.fields[name] = FieldSketch()
        one.count += 1
        one.types.add(_TYPES.get(type(value).__name__, type(value).__name__))
        if not one.sample and value is not None:
            one.sample = "(hidden)" if name == KEY else _short(value)


def portray(lines: Iterable[Line], tokenizer: Tokenizer | None = None) -> Portrait:
    """A line that is not a row is an error."""
    portrait = Portrait(tokenizer)
    for line in lines:
        portrait.observe(need_row(line))
    return portrait


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else write_cut(value).decode()
    text = " ".join(text[: 4 * MAX_SHOWN].split())
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"

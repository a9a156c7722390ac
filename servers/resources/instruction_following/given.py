"""What an instruction is given (`kwargs`), read by type, and the registry of checks by instruction id."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from gym.wire.answers import plain_lines

Check = Callable[[str, "Given"], bool]
CHECKS: dict[str, Check] = {}
RELATIONS = ("less than", "at least")


class Unusable(Exception):
    """A kwarg is missing or of another type: nothing can be checked."""


def check(instruction_id: str) -> Callable[[Check], Check]:
    def add(function: Check) -> Check:
        CHECKS[instruction_id] = function
        return function

    return add


class Given:
    """The kwargs of one instruction, nulls left out; and whether a check is to be `strict`."""

    def __init__(self, kwargs: Mapping[str, Any], *, strict: bool = False) -> None:
        self.strict = strict
        self._kwargs = {key: value for key, value in kwargs.items() if value is not None}

    def text(self, name: str) -> str:
        value = self._get(name, "a text")
        if isinstance(value, list) and value and isinstance(value[0], str):
            value = value[0]  # some data sets wrap a single word in a list
        if not isinstance(value, str):
            raise Unusable(f"kwargs.{name} should be a text, not {value!r:.60}")
        return value

    def word(self, name: str) -> str:
        """A text with something in it, and nothing around it."""
        if not (value := self.text(name).strip()):
            raise Unusable(f"kwargs.{name} is empty")
        return value

    def copy(self, name: str) -> str:
        """A word that the answer is to repeat; in strict mode its lines end as the answer's do."""
        return plain_lines(self.word(name)).strip() if self.strict else self.word(name)

    def texts(self, name: str) -> list[str]:
        value = self._get(name, "a list of texts")
        if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
            raise Unusable(f"kwargs.{name} should be a list of texts, not {value!r:.60}")
        return value

    def number(self, name: str) -> int:
        value = self._get(name, "a number")
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or abs(value) > 1e9:
            raise Unusable(f"kwargs.{name} should be a number, not {value!r:.60}")
        return int(value)

    def relation(self, count: int, number: str, relation: str = "relation") -> bool:
        """Compares `count` with the number of the instruction: `less than` or `at least`."""
        asked, wanted = self.text(relation), self.number(number)
        if asked not in RELATIONS:
            raise Unusable(f"kwargs.{relation} should be one of {', '.join(RELATIONS)}, not {asked!r:.60}")
        return count < wanted if asked == RELATIONS[0] else count >= wanted

    def _get(self, name: str, expected: str) -> Any:
        if name not in self._kwargs:
            raise Unusable(f"kwargs.{name} is missing: {expected} is expected")
        return self._kwargs[name]


def pattern_of(text: str, *, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    """Keywords are patterns in the data sets that came first; one that is none is a bad kwarg."""
    try:
        return re.compile(text, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise Unusable(f"{text!r:.60} is not a pattern: {error}") from None

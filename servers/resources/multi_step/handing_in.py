"""The value of a synonym, and the values that a response hands in."""

from __future__ import annotations

from typing import Any

import orjson

from gym.wire.failures import RolloutError
from gym.wire.items import Item


def reachable_values(synonyms: list[str], expected: list[int]) -> list[int]:
    """The expected values, where they are those that the tool gives for the expected synonyms."""
    values = [synonym_value(synonym) for synonym in synonyms]
    if not values:
        raise RolloutError("row", "expected_synonyms: the list is empty, so nothing can be right")
    if values != expected:
        what = f"expected_synonym_values: the tool gives {values} for expected_synonyms, not {expected}"
        raise RolloutError("row", what)
    return values


def synonym_value(synonym: str) -> int:
    return sum(ord(letter) for letter in synonym)


def handed_in(calls: list[Item]) -> tuple[list[Any], str]:
    """The values of the last extract_synonym_values call, and what is wrong with them."""
    for call in reversed(calls):
        if call.get("name") == "extract_synonym_values":
            return parse_values(call.get("arguments"))
    return [], "extract_synonym_values was never called"


def parse_values(arguments: Any) -> tuple[list[Any], str]:
    try:
        parsed = orjson.loads(arguments)
    except (orjson.JSONDecodeError, TypeError):
        return [], "the arguments of extract_synonym_values are not JSON"
    values = parsed.get("synonym_values") if isinstance(parsed, dict) else None
    if not isinstance(values, list):
        return [], "synonym_values is not a list"
    values = [int(one) if isinstance(one, float) and one.is_integer() else one for one in values]  # 711.0 is one
    return values, "" if all(type(value) is int for value in values) else "synonym_values holds more than integers"

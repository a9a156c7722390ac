"""Finds the values that the tools gave, and whether the wanted ones are among them. Pure; accepts any output.

Lenient compares floats exactly and trusts the outputs as they stand; strict trusts what a call of the function gives.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from universe import FUNCTIONS, evaluate

from gym.wire import items
from gym.wire.failures import RolloutError

Item = Mapping[str, Any]
TOLERANCE = 1e-9  # relative; what two orders of the same float operations may differ by
STATED = 1e-3  # relative; an answer for people is rounded
MAX_TEXT = 100_000  # of an answer: its end is what counts

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?")


def read_truth(given: str | list[float]) -> list[float]:
    """A JSON text of a list of numbers, or that list. Nothing to find is a mistake of the row: anything would do."""
    try:
        found = orjson.loads(given) if isinstance(given, str) else given
    except orjson.JSONDecodeError as error:
        raise RolloutError("row", f"ground_truth: a JSON list of numbers is needed: {error}") from None
    if not isinstance(found, list) or not all(type(one) in (int, float) for one in found):
        raise RolloutError("row", f"ground_truth: a JSON list of numbers is needed, found {str(found)[:80]}")
    if not found:
        raise RolloutError("row", "ground_truth: the list is empty, so any answer would be right")
    values = [float(one) for one in found]
    if not all(map(math.isfinite, values)):
        raise RolloutError("row", f"ground_truth: no tool gives {max(values, key=abs)}")
    return values


def score(output: Sequence[Item], truth: Sequence[float], *, strict: bool) -> tuple[float, str]:
    """1.0 when every wanted value was computed, and why not."""
    values = called_values(output) if strict else stated_values(output)
    missing = [one for one in truth if not any(_equal(one, value, strict) for value in values)]
    if missing:
        return 0.0, f"{len(missing)} of {len(truth)} values were never computed: {missing[0]:.12g} is missing"
    if strict and not states(items.output_text(output), truth[-1]):
        return 0.0, f"the answer does not say {truth[-1]:.12g}"
    return 1.0, ""


def stated_values(output: Sequence[Item]) -> list[float]:
    """`solution` of every tool output; a value that is not a number is skipped."""
    outputs = (item.get("output") for item in output if item.get("type") == "function_call_output")
    return [value for text in outputs if (value := _solution(text)) is not None]


def called_values(output: Sequence[Item]) -> list[float]:
    """What the calls themselves give, computed again, as far as a tool has answered them."""
    answered = {str(item.get("call_id")) for item in output if item.get("type") == "function_call_output"}
    calls = (call for call in items.function_calls(list(output)) if str(call.get("call_id")) in answered)
    return [value for call in calls if (value := _computed(call)) is not None]


def states(text: str, value: float) -> bool:
    """True when the text has the number, rounded as people do."""
    numbers = (float(found.replace(",", "")) for found in _NUMBER.findall(text[-MAX_TEXT:]))
    return any(math.isclose(one, value, rel_tol=STATED, abs_tol=STATED) for one in numbers)


def _equal(wanted: float, value: float, strict: bool) -> bool:
    return math.isclose(wanted, value, rel_tol=TOLERANCE, abs_tol=TOLERANCE) if strict else wanted == value


def _solution(text: Any) -> float | None:
    try:
        return float(json.loads(text)["solution"])  # not orjson: what this one reads is what older rewards were made of
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _computed(call: Item) -> float | None:
    try:
        arguments = orjson.loads(call.get("arguments") or "{}")
        given = {name: float(value) for name, value in arguments.items() if value is not None}
        return evaluate(str(call.get("name")), given) if call.get("name") in FUNCTIONS else None
    except (ValueError, TypeError, AttributeError, ArithmeticError):
        return None

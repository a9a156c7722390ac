"""Whether a program gave what was expected. It runs out here: what is expected never goes where the program is."""

from __future__ import annotations

import json
import math
from decimal import Decimal, InvalidOperation
from typing import Any

LONGEST = 300
TOLERANCE = Decimal("1e-6")


def shortened(given: Any) -> str:
    text = given if isinstance(given, str) else str(given)
    half = LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]}...(truncated) ...{text[-half:]}"


def compare_texts(given: str, expected: str, *, strict: bool = False) -> str:
    """Why not; "" where they are the same, line by line: as text, or number by number."""
    found, wanted = stripped_lines(given), stripped_lines(expected)
    if len(found) != len(wanted):
        return "Wrong answer: mismatched output length"
    for at, (one, other) in enumerate(zip(found, wanted, strict=True)):
        if one != other and not same_numbers(one, other, strict):
            return f"Wrong answer at output_line_idx={at}: {shortened(one)} != {shortened(other)}"
    return ""


def stripped_lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def same_numbers(given: str, expected: str, strict: bool) -> bool:
    found, wanted = given.split(), expected.split()
    if len(found) != len(wanted):
        return False
    try:
        pairs = [(Decimal(one), Decimal(other)) for one, other in zip(found, wanted, strict=True)]
        return all(
            one == other or (strict and is_float(text, wish) and near(one, other))
            for (one, other), text, wish in zip(pairs, found, wanted, strict=True)
        )
    except InvalidOperation:
        return False


def is_float(*texts: str) -> bool:
    return any("." in text or "e" in text.lower() for text in texts)


def near(given: Decimal, expected: Decimal) -> bool:
    if not (given.is_finite() and expected.is_finite()):
        return False
    return abs(given - expected) <= TOLERANCE * max(abs(expected), Decimal(1))


def read_json(text: str) -> Any:
    """As JSON, with integers of any length."""
    return json.loads(text, parse_int=to_int)


def to_int(digits: str) -> int | str:
    return int(digits) if len(digits) < 4300 else digits


def same_value(given: Any, expected: Any) -> bool:
    """Plain values on both sides: the same, the same JSON, or numbers that are close."""
    if given == expected:
        return True
    try:
        if json.dumps(given) == json.dumps(expected):
            return True
        one, other = float(given), float(expected)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
    if math.isinf(one) or math.isinf(other):
        return one == other
    return abs(one - other) <= 1e-8 + 1e-5 * abs(other)

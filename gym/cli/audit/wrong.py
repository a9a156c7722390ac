"""Values that are wrong in the gold's own format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from gym.cli.audit.gold import Gold

OPPOSITE = {"yes": "no", "no": "yes", "true": "false", "false": "true"}
LETTERS = "ABCD"


def wrong_values(gold: Gold, others: Sequence[str] = ()) -> list[str]:
    """One or two, likeliest first. `others`: what is right in other rows."""
    value = gold.value
    if gold.form == "letter":
        right = re.sub(r"\W", "", value)
        return [value.replace(right, other) for other in LETTERS if other != right][:2]
    if gold.form == "yes or no":
        return [_in_case_of(value, OPPOSITE[value.lower()])]
    if gold.form == "number":
        return [plus(value, 7), plus(value, 100)]
    if gold.form == "list":
        return list(_wrong_lists(value))
    if gold.form == "expression":
        other = re.sub(r"\d+", lambda found: str(int(found[0]) + 3), value, count=1)
        return [other if other != value else f"{value}+1"]
    return [*[other for other in others if _is_other(value, other)][:1], scrambled(value)]


def plus(value: str, more: int) -> str:
    """As many decimals and the same signs."""
    plain = value.replace(",", "")
    decimals = len(plain.partition(".")[2])
    number = f"{float(plain) + more:.{decimals}f}" if decimals else str(int(plain) + more)
    return f"{int(number):,}" if "," in value and not decimals else number


def scrambled(text: str) -> str:
    """Other letters and digits at the same places."""
    return "".join(_next(char) for char in text)


def changed_leaf(value: Any) -> Any:
    """The same with its first plain value changed; of the same type."""
    if isinstance(value, dict) and value:
        first = next(iter(value))
        return {**value, first: changed_leaf(value[first])}
    if isinstance(value, list) and value:
        return [changed_leaf(value[0]), *value[1:]]
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 7
    return scrambled(value) if isinstance(value, str) and value else "other"


def _wrong_lists(text: str) -> Iterator[str]:
    try:
        value = json.loads(text)
    except ValueError:
        inside = [one.strip() for one in text[1:-1].split(",")]
        yield f"[{', '.join([scrambled(inside[0]), *inside[1:]])}]"
        yield f"[{', '.join([*inside, scrambled(inside[0])])}]"
        return
    yield json.dumps(changed_leaf(value))
    yield json.dumps([*value, changed_leaf(value[0])]) if value else "[1]"


def _is_other(value: str, other: str) -> bool:
    one, two = value.lower().strip(), other.lower().strip()
    return bool(two) and one not in two and two not in one


def _in_case_of(pattern: str, word: str) -> str:
    return word.upper() if pattern.isupper() else word.capitalize() if pattern[:1].isupper() else word


def _next(char: str) -> str:
    if char.isdecimal():
        return "1234567890"[int(char)]
    low = char.lower()
    if not ("a" <= low <= "z"):
        return char
    turned = chr((ord(low) - 97 + 5) % 26 + 97)
    return turned.upper() if char.isupper() else turned

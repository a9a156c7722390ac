"""Search texts are regular expressions, letter case ignored; the ones that could run away are refused.

A policy writes both the pattern and, through other tools, the text: a search must never hold up the event loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MAX_PATTERN = 200
MAX_TEXT = 2000  # of a cell, for a pattern: one that repeats something costs the square of it

_PLAIN = re.compile(r"[^\\^$.|?*+()\[\]{}]*")
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_REPEAT = re.compile(r"[*+{]")
_RISKY = re.compile(r"\\[1-9]|\(\?|\)[*+?{]|[*+?}][*+{]")


class RiskyPattern(ValueError):
    """Repeats more than one thing, or something that repeats."""


def contains(pattern: Any) -> Callable[[Any], bool]:
    """A test for cells; an empty cell never matches."""
    if isinstance(pattern, str) and _PLAIN.fullmatch(pattern):
        lowered = pattern.lower()
        return lambda cell: isinstance(cell, str) and lowered in cell.lower()
    if isinstance(pattern, str):
        _refuse_risky(pattern)
    found = re.compile(pattern, re.IGNORECASE).search  # raises when the pattern is not a text, or is invalid
    return lambda cell: isinstance(cell, str) and found(cell[:MAX_TEXT]) is not None


def _refuse_risky(pattern: str) -> None:
    if len(pattern) > MAX_PATTERN:
        raise RiskyPattern(f"a search pattern has at most {MAX_PATTERN} characters")
    bare = _ESCAPED.sub("_", pattern)
    repeats, choices = len(_REPEAT.findall(bare)), bare.count("|") + bare.count("?")
    if repeats > 1 or choices > (1 if repeats else 6) or _RISKY.search(pattern):
        raise RiskyPattern("this pattern is too complex: search for plain text")

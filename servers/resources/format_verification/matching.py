"""Lines that match, markers that appear. What the workers of the server import: rows' patterns run nowhere else."""

from __future__ import annotations

import re
from typing import Any

MAX_LISTED = 100  # spurious markers that a reply names


class BadPattern(ValueError):
    """No regular expression."""


def match_lines(text: str, patterns: list[str], min_matches: int) -> dict[str, Any]:
    """A line counts once, however many patterns match in it."""
    compiled = [_compile("verify_regex", pattern) for pattern in patterns]
    matching = sum(any(pattern.search(line) for pattern in compiled) for line in text.split("\n"))
    return {"matching_lines": matching, "min_matches": min_matches, "passed": matching >= min_matches}


def match_markers(text: str, expected: list[str], patterns: list[str]) -> dict[str, Any]:
    """Every expected marker appears, and none that looks like one (by `patterns`) beside them."""
    compiled = [_compile("patterns", pattern) for pattern in patterns]
    allowed = set(expected)
    missing = [marker for marker in expected if marker not in text]
    spurious: list[str] = []
    for pattern in compiled:
        for found in pattern.finditer(text):
            if found.group() not in allowed and len(spurious) < MAX_LISTED:
                spurious.append(found.group())
    return {"expected": expected, "missing": missing, "spurious": spurious, "passed": not missing and not spurious}


def _compile(field: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadPattern(f"verifier.{field}: {pattern!r:.100} is not a pattern: {error}") from None

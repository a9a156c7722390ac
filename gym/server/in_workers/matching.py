"""What the workers of `gym.server.patterns` run: one search, nothing else imported."""

from __future__ import annotations

import re
from collections import deque


def last_match(pattern: str, text: str) -> list[str | None] | None:
    """The groups of the last match (all of it where there are none), letter case ignored; None without a match."""
    matches = deque(re.finditer(pattern, text, re.IGNORECASE), maxlen=1)
    if not matches:
        return None
    return list(matches[0].groups()) or [matches[0].group()]


def last_text(pattern: str, text: str) -> str | None:
    """The last match's first group that is not blank, or all of it; letter case counts, `.` and `^` know lines."""
    matches = deque(re.finditer(pattern, text, re.MULTILINE | re.DOTALL), maxlen=1)
    if not matches:
        return None
    match = matches[0]
    return next((one.strip() for one in match.groups() if one and one.strip()), match.group().strip())

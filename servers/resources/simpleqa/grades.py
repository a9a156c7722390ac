"""Which of three grades a judge gave: a letter that stands as a grade, never the first letter of a sentence."""

from __future__ import annotations

import re

from gym.server.judge import parse_verdict, strip_thoughts

GRADES = {"A": "correct", "B": "incorrect", "C": "not_attempted"}
WORDS = {"CORRECT": "A", "INCORRECT": "B", "NOT_ATTEMPTED": "C", "NOT ATTEMPTED": "C"}
# "B", "**B**", "B: INCORRECT", "(B) because …", "Grade: B"; not "A good answer" and not "Because".
_LETTER = re.compile(
    r"[\W_]*(?:(?:final )?(?:grade|answer|verdict)\s*(?:is\b)?[\W_]*)?([ABC])(?![\w'’])", re.IGNORECASE
)
_AFTER = re.compile(r"[\s\"'*_`.)\]]*(?:$|[:,;(\[=–—-])")


def read_grade(text: str, *, last: bool = False) -> str | None:
    """A, B, C or None. The first line counts, then the last one (with `last` the other way round), then a word."""
    lines = [line.strip() for line in strip_thoughts(text).splitlines() if line.strip()]
    if not lines:
        return None
    ends = (lines[-1], lines[0]) if last else (lines[0], lines[-1])
    for line in ends:
        if grade := _letter_of(line):
            return grade
    word = parse_verdict("\n".join(lines), WORDS)
    return WORDS[word] if word else None


def _letter_of(line: str) -> str | None:
    found = _LETTER.match(line)
    if found is None or not found.group(1).isupper():
        return None
    rest = line[found.end() :]
    closed = line[found.start(1) - 1 : found.start(1)] in ("(", "[", "*", "`") and rest[:1] in (")", "]", "*", "`")
    return found.group(1) if closed or _AFTER.match(rest) else None

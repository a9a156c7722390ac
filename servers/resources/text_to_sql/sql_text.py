"""The query in an answer: in a fence marked sql, in a fence that begins like SQL, or bare. Linear in the text."""

from __future__ import annotations

import re

_BEGINS = re.compile(r"(?:SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP)\s", re.IGNORECASE)
_BARE = re.compile(r"(?:SELECT|INSERT|UPDATE|DELETE|WITH)\s", re.IGNORECASE)
FENCE = "```"


def extract_sql(text: str) -> str | None:
    """The last fence marked sql counts, else the last fence that begins like a query, else what follows a keyword."""
    if (marked := _fences(text, f"{FENCE}sql")) is not None:
        return marked[-1] or None
    for block in reversed(_fences(text, FENCE) or []):
        if _BEGINS.match(block):
            return block
    begin = _BARE.search(text)
    if begin is None:
        return None
    # Up to the last semicolon: one in between may stand in a string or a comment.
    end = text.rfind(";")
    found = text[begin.start() : end + 1] if end >= begin.start() else text[begin.start() :]
    return found.strip().rstrip(";") + ";"


def _fences(text: str, opening: str) -> list[str] | None:
    """What stands between `opening`, in any letter case, and the next fence; None when there is no such pair."""
    lowered = text.lower() if len(text.lower()) == len(text) else text  # some letters change length
    found, at = [], 0
    while (begin := lowered.find(opening, at)) >= 0:
        begin += len(opening)
        end = lowered.find(FENCE, begin)
        if end < 0:
            break
        found.append(text[begin:end].strip())
        at = end + len(FENCE)
    return found or None

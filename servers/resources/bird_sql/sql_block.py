"""The query in an answer: what stands in the last fence marked sql. Linear in the text."""

from __future__ import annotations

import re

OPENING, CLOSING = "```sql", "```"
_LETTER = re.compile(r"[a-zA-Z]")
_WORD = re.compile(r"\w{0,20}")  # the rest of a fence's word
_COMMENT = re.compile(r"--|/\*")
_HEADING = re.compile(r"\*\*.*\*\*")


def last_block(text: str, *, strict: bool = False) -> str | None:
    """The last fence that holds a letter; None without one. `strict` reads ```SQL and ```sqlite as well."""
    found: str | None = None
    at = 0
    lowered = text.lower() if strict and len(text.lower()) == len(text) else text
    while (begin := lowered.find(OPENING, at)) >= 0:
        begin += len(OPENING)
        begin = _WORD.match(text, begin).end() if strict else begin  # type: ignore[union-attr]
        letter = _LETTER.search(text, begin)
        end = text.find(CLOSING, letter.end()) if letter else -1
        if end < 0:
            break
        found, at = text[begin:end], end + len(CLOSING)
    return found


def clean(block: str) -> str:
    """As the benchmark does it: without comments, on one line, without a bold heading.

    A `--` takes all that follows it, on whatever line. `strict` leaves comments to SQLite instead.
    """
    line = " ".join(_without_comments(block).split())
    return _HEADING.sub("", line, count=1).strip() if line.startswith("**") else line


def _without_comments(text: str) -> str:
    kept: list[str] = []
    at = 0
    while found := _COMMENT.search(text, at):
        begin, block = found.start(), found.group() == "/*"
        end = text.find("*/", found.end()) if block else -1
        if block and end < 0:  # never closed: it stays, and so does what follows, up to a `--`
            begin = text.find("--", begin)
            return "".join([*kept, text[at:] if begin < 0 else text[at:begin]])
        kept.append(text[at:begin])
        if not block:
            return "".join(kept)
        at = end + 2
    return "".join([*kept, text[at:]])

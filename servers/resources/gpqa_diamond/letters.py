r"""The letter an answer ends with: in the last `\boxed{…}`, else behind the last `Answer:`. Linear in the text."""

from __future__ import annotations

import re
from collections import deque

_CAPITAL = re.compile(r"\b([A-Z])\b")
_ANSWER = re.compile(r"answer[*_]{0,2}\s*:[\s*_]{0,2}\s*([a-z])(?![a-z0-9])", re.IGNORECASE)
_STYLED = re.compile(r"\\(?:math|text)[a-z]{0,6}\s*\{\s*([A-Za-z])\s*\}")
_BOX = "\\boxed{"


def extract_letter(text: str, *, strict: bool = False) -> str | None:
    r"""Strict also reads `\boxed{b}` and `\boxed{\mathrm{b}}`."""
    return letter_in_box(text, strict=strict) or letter_behind_answer(text)


def letter_in_box(text: str, *, strict: bool) -> str | None:
    """The last box decides: its letter, or its last capital that stands alone."""
    closing = text.rfind("}")
    opening = text.rfind(_BOX, 0, max(closing, 0))
    if opening < 0:
        return None
    content = text[opening + len(_BOX) : text.find("}", opening)].strip()
    if strict and (letter := _loose_letter(text[opening + len(_BOX) : closing], content)):
        return letter
    capitals = _CAPITAL.findall(content)
    return capitals[-1] if capitals else None


def letter_behind_answer(text: str) -> str | None:
    found = deque(_ANSWER.finditer(text), maxlen=1)
    return found[0].group(1).upper() if found else None


def _loose_letter(tail: str, content: str) -> str | None:
    if len(content) == 1 and content.isascii() and content.isalpha():
        return content.upper()
    styled = _STYLED.match(tail.lstrip())
    return styled.group(1).upper() if styled else None

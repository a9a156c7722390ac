"""Where a short answer stands: in a box, behind `Answer:`, on the last line, or it is the whole text."""

from __future__ import annotations

import re
from collections import deque
from typing import Literal

from gym.server.slots import kept, last_box, last_line
from gym.wire.answers import last_boxed

ExtractionMode = Literal["boxed", "final_answer", "last_line", "full_response"]

MAX_WRAPPERS = 8  # each costs a pass over the text
_WRAPPER = re.compile(r"\\text\{\s*(.*)\}", re.DOTALL)
_ANSWER = re.compile(r"answer\s*[:：]\s*(.+)", re.IGNORECASE)


def extract_answer(text: str, mode: ExtractionMode) -> str | None:
    """None when the text has no answer in the form that `mode` wants."""
    if mode == "boxed":
        return boxed(text)
    if mode == "final_answer":
        found = final_answer(text)
        return boxed(text) if found is None else found
    if mode == "last_line":
        return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), None)
    return text.strip() or None


def strict_answer(text: str, mode: ExtractionMode) -> str | None:
    """The same of the last box or `Answer:` that says something, in whatever Markdown, where nothing takes it back."""
    if mode in ("last_line", "full_response"):
        return extract_answer(text, mode)
    slots = [last_box(text), last_line(text) if mode == "final_answer" else None]
    return kept(text, max((slot for slot in slots if slot), key=lambda slot: slot.begin, default=None))


def boxed(text: str) -> str | None:
    r"""The last box, out of the `\text{…}` around its content."""
    content = last_boxed(text)
    if content is None:
        return None
    content = content.strip()
    for _ in range(MAX_WRAPPERS):
        wrapper = _WRAPPER.fullmatch(content)
        if wrapper is None:
            break
        content = wrapper.group(1).strip()
    return content


def final_answer(text: str) -> str | None:
    """What stands behind the last `Final answer:` or `Answer:`, without the full stop."""
    found = deque(_ANSWER.finditer(text), maxlen=1)
    return found[0].group(1).strip().removesuffix(".").strip().rstrip(".") if found else None

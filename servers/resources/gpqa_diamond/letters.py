r"""The letter an answer ends with: in the last `\boxed{…}`, else behind the last `Answer:`. Linear in the text."""

from __future__ import annotations

import re
from collections import deque

from gym.server.multiple_choice import sole_letter
from gym.server.slots import kept, last_box, last_line
from gym.wire.choices import Options

ANY_OPTION = "ABCDEFGHIJ"  # of a row that lists none
_CAPITAL = re.compile(r"\b([A-Z])\b")
_ANSWER = re.compile(r"answer[*_]{0,2}\s*:[\s*_]{0,2}\s*([a-z])(?![a-z0-9])", re.IGNORECASE)
_BOX = "\\boxed{"


def extract_letter(text: str) -> str | None:
    return letter_in_box(text) or letter_behind_answer(text)


def strict_letter(text: str, options: Options) -> str | None:
    """The last box or the last `Answer:`, the one further down, names one option, in any form, and no other."""
    slots = [slot for slot in (last_line(text), last_box(text)) if slot is not None]
    content = kept(text, max(slots, key=lambda slot: slot.begin)) if slots else None
    return sole_letter(content, options, ANY_OPTION) if content is not None else None


def letter_in_box(text: str) -> str | None:
    """The last box decides: its letter, or its last capital that stands alone."""
    closing = text.rfind("}")
    opening = text.rfind(_BOX, 0, max(closing, 0))
    if opening < 0:
        return None
    content = text[opening + len(_BOX) : text.find("}", opening)].strip()
    capitals = _CAPITAL.findall(content)
    return capitals[-1] if capitals else None


def letter_behind_answer(text: str) -> str | None:
    found = deque(_ANSWER.finditer(text), maxlen=1)
    return found[0].group(1).upper() if found else None

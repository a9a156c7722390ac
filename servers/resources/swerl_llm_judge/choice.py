"""The letter in `<solution>…</solution>`. Linear in the text."""

from __future__ import annotations

import re
from typing import Literal

from gym.server.slots import kept, last_pair, unwrapped

GradingMode = Literal["lenient", "strict"]
_SOLE = re.compile(r"\s*\[?([A-Za-z])\]?\s*")
_LONE = re.compile(r"[^\W\d_]+")
OPENING, CLOSING = "<solution>", "</solution>"


def extract_choice(text: str, allowed: frozenset[str], mode: GradingMode, *, only: bool = False) -> str | None:
    """`lenient`: the first letter of the last block that stands alone. `strict`: the first block that is one letter.

    `only`: the last block that holds something counts in either mode, and it is one letter and nothing else.
    """
    if only:
        found = _SOLE.fullmatch(unwrapped(kept(text, last_pair(text, "solution")) or ""))
        letter = found.group(1) if found else None
    elif mode == "strict":
        whole = (_SOLE.fullmatch(block) for block in solution_blocks(text, any_case=False))
        letter = next((found.group(1) for found in whole if found), None)
    else:
        blocks = solution_blocks(text, any_case=True)[-1:]
        words = (word for block in blocks for word in _LONE.findall(block))
        letter = next((word for word in words if len(word) == 1), None)
    return letter.upper() if letter and letter.upper() in allowed else None


def solution_blocks(text: str, *, any_case: bool) -> list[str]:
    """What stands between a `<solution>` and the next `</solution>`."""
    flags = re.IGNORECASE if any_case else 0
    tags = re.compile(f"{OPENING}|{CLOSING}", flags)
    blocks: list[str] = []
    begin = -1
    for tag in tags.finditer(text):
        opens = tag.group().lower() == OPENING
        if opens and (begin < 0 or not any_case):
            begin = tag.end()
        elif not opens and begin >= 0:
            blocks.append(text[begin : tag.start()])
            begin = -1
    return blocks

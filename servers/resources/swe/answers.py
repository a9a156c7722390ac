"""The patch that a model wrote into its answer: a fenced block, a tag, or the bare text of a diff. Pure."""

from __future__ import annotations

import re
from typing import Final

from gym.wire.answers import cut_out

FENCE: Final = re.compile(r"^[ \t]*```(?:diff|patch|udiff)[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
ANY_FENCE: Final = re.compile(r"^[ \t]*```[^\n]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
BEGINNING: Final = re.compile(r"^(?:diff --git |--- \S)", re.MULTILINE)


def patch_in(text: str) -> str:
    """After the last thought; "" where there is none. The last one counts."""
    text = text.rpartition("</think>")[2]
    tagged = [one.removeprefix("\n") for one in cut_out(text, "<patch>", "</patch>")[0]]
    for found in (tagged, FENCE.findall(text), [one for one in ANY_FENCE.findall(text) if _is_diff(one)]):
        if found:
            return ended(found[-1])
    begins = BEGINNING.search(text)
    return ended(text[begins.start() :]) if begins and _is_diff(text) else ""


def ended(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"


def _is_diff(text: str) -> bool:
    return bool(BEGINNING.search(text)) and "\n+++ " in f"\n{text}" and "\n@@" in f"\n{text}"

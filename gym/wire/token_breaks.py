"""Whether the token ids of a rollout add up: each prompt begins with all that was prompted and generated before it."""

from __future__ import annotations

import re
from typing import Any, Final

from gym.wire.token_ids import GENERATION, PROMPT
from gym.wire.unread import UnreadItem

EMPTY: Final = re.compile(rb"\[[ \t\r\n]*\]")


def find_break(output: Any) -> dict[str, int] | None:
    """The first model call of a rollout whose prompt does not begin with the former call's prompt and generation.

    `step` counts the calls from 1; `expected` tokens should have come back, the prompt has `prompt`, and the first
    `common` of them are the same; `breaks` is how many calls there are like it.
    """
    found: dict[str, int] | None = None
    before: dict[str, Any] | None = None
    step = 0
    for item in output if isinstance(output, list) else ():
        if not isinstance(item, dict) or not _has_both(item):
            continue
        step += 1
        if before is not None and not _continues_as_written(before, item):
            prompt, ids = item[PROMPT], before[PROMPT] + before[GENERATION]
            if prompt[: len(ids)] != ids:
                found = found or _describe_break(step, ids, prompt)
                found["breaks"] += 1
        before = item
    return found


def _has_both(item: dict[str, Any]) -> bool:
    if isinstance(item, UnreadItem) and {PROMPT, GENERATION} <= item.unread.keys():
        return not EMPTY.fullmatch(item.unread[GENERATION])
    return isinstance(item.get(PROMPT), list) and isinstance(item.get(GENERATION), list) and bool(item[GENERATION])


def _continues_as_written(before: dict[str, Any], item: dict[str, Any]) -> bool:
    """By the bytes of unread arrays: False also where they are written in another way."""
    if not (isinstance(before, UnreadItem) and isinstance(item, UnreadItem)):
        return False
    prompt, generation, now = before.unread.get(PROMPT), before.unread.get(GENERATION), item.unread.get(PROMPT)
    if prompt is None or generation is None or now is None:
        return False
    middle = len(prompt)  # `[1,2]`, `[3]` and `[1,2,3,4]`: where the generated ones begin in the new prompt
    end = middle + len(generation) - 2
    return (
        now.startswith(memoryview(prompt)[:-1])
        and now[middle - 1 : middle] == b","
        and now.startswith(memoryview(generation)[1:-1], middle)
        and now[end : end + 1] in (b",", b"]")
    )


def _describe_break(step: int, before: list[Any], prompt: list[Any]) -> dict[str, int]:
    pairs = enumerate(zip(before, prompt, strict=False))
    common = next((index for index, (one, other) in pairs if one != other), min(len(before), len(prompt)))
    return {"step": step, "expected": len(before), "prompt": len(prompt), "common": common, "breaks": 0}

"""Checks whether a text follows its instructions. The workers of the server import this for all checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ifbench_forms  # noqa: F401 (registers its checks, as the next three do)
import ifbench_words  # noqa: F401
import ifeval_checks  # noqa: F401
import iftrain_checks  # noqa: F401
from given import CHECKS, Given, Unusable

from gym.wire.answers import plain_lines, says_something

MAX_REASON = 2000
MAX_CHARACTERS = 500_000  # several times what a policy can say; with it, no check takes a second


def follow(
    text: str,
    ids: Sequence[str],
    kwargs: Sequence[Mapping[str, Any] | None],
    *,
    empty_follows: bool,
    loose: bool,
    strict: bool = False,
) -> dict[str, Any]:
    """Per instruction whether it is followed: by the text itself, and (`loose`) by any of its variants."""
    reason = ""
    if len(text) > MAX_CHARACTERS:
        text, empty_follows = "", False
        reason = f"the answer is longer than {MAX_CHARACTERS:,} characters"
    if strict:
        text, empty_follows = plain_lines(text), False
    pairs = [(one, Given(given or {}, strict=strict)) for one, given in zip(ids, kwargs, strict=False)]
    judged = [_judge([text], one, given, empty_follows) for one, given in pairs]
    result: dict[str, Any] = {"followed": [followed for followed, _ in judged]}
    result["reason"] = reason or "; ".join(why for _, why in judged if why)[:MAX_REASON]
    if loose:
        texts = variants(text)
        result["followed_loosely"] = [_judge(texts, one, given, False)[0] for one, given in pairs]
    return result


def worker_follow(
    text: str, ids: list[str], kwargs: list[dict[str, Any] | None], empty_follows: bool, loose: bool, strict: bool
) -> dict[str, Any]:
    return follow(text, ids, kwargs, empty_follows=empty_follows, loose=loose, strict=strict)


def variants(text: str) -> list[str]:
    """The text, and what is left of it without stars and without its first line, its last, both."""
    parts = text.split("\n")
    cut = [text, *("\n".join(kept).strip() for kept in (parts[1:], parts[:-1], parts[1:-1]))]
    return [*cut, *(one.replace("*", "") for one in cut)]


def _judge(texts: Sequence[str], instruction_id: str, given: Given, empty_follows: bool) -> tuple[bool, str]:
    check = CHECKS.get(instruction_id)
    if check is None:
        return False, f"{instruction_id}: no such instruction"
    reason = f"{instruction_id}: not followed"
    for text in texts:
        if empty_follows or (says_something(text) if given.strict else text.strip()):
            try:
                if check(text, given):
                    return True, ""
            except Unusable as error:
                reason = f"{instruction_id}: {error}"
    return False, reason

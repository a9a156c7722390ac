"""Does a text follow its instructions? What the workers of the server import: the one door to all the checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ifbench_forms  # noqa: F401 (registers its checks, as the next three do)
import ifbench_words  # noqa: F401
import ifeval_checks  # noqa: F401
import iftrain_checks  # noqa: F401
from given import CHECKS, Check, Given, Unusable

MAX_REASON = 2000
MAX_CHARACTERS = 500_000  # several times what a policy can say; with it, no check takes a second


def follow(
    text: str, ids: Sequence[str], kwargs: Sequence[Mapping[str, Any] | None], *, empty_follows: bool, loose: bool
) -> dict[str, Any]:
    """Per instruction whether it is followed: by the text itself, and (`loose`) by any of its variants."""
    reason = ""
    if len(text) > MAX_CHARACTERS:
        text, empty_follows = "", False
        reason = f"the answer is longer than {MAX_CHARACTERS:,} characters"
    strict = [_judge([text], one, given, empty_follows) for one, given in zip(ids, kwargs, strict=False)]
    told: dict[str, Any] = {"followed": [followed for followed, _ in strict]}
    told["reason"] = reason or "; ".join(why for _, why in strict if why)[:MAX_REASON]
    if loose:
        texts = variants(text)
        pairs = zip(ids, kwargs, strict=False)
        told["followed_loosely"] = [_judge(texts, one, given, False)[0] for one, given in pairs]
    return told


def worker_follow(
    text: str, ids: list[str], kwargs: list[dict[str, Any] | None], empty_follows: bool, loose: bool
) -> dict[str, Any]:
    return follow(text, ids, kwargs, empty_follows=empty_follows, loose=loose)


def variants(text: str) -> list[str]:
    """The text, and what is left of it without stars and without its first line, its last, both."""
    parts = text.split("\n")
    cut = [text, *("\n".join(kept).strip() for kept in (parts[1:], parts[:-1], parts[1:-1]))]
    return [*cut, *(one.replace("*", "") for one in cut)]


def _judge(
    texts: Sequence[str], instruction_id: str, given: Mapping[str, Any] | None, empty_follows: bool
) -> tuple[bool, str]:
    check = CHECKS.get(instruction_id)
    if check is None:
        return False, f"{instruction_id}: no such instruction"
    reason = f"{instruction_id}: not followed"
    for text in texts:
        if text.strip() or empty_follows:
            try:
                if _run(check, text, given):
                    return True, ""
            except Unusable as error:
                reason = f"{instruction_id}: {error}"
    return False, reason


def _run(check: Check, text: str, given: Mapping[str, Any] | None) -> bool:
    return check(text, Given(given or {}))

"""`Score`: what `verify` returns when there is more to say than the reward."""

from __future__ import annotations

import math
from collections.abc import Coroutine, Mapping
from numbers import Real
from typing import Any, TypeGuard

from pydantic import BaseModel

from gym.wire.deep_values import UNWRITABLE, cut_depth, is_too_deep
from gym.wire.failures import RolloutError
from gym.wire.json_text import write_json
from gym.wire.rows import VerifyResponse
from gym.wire.splice import ANYTHING

SHOWN = 100  # letters of what is not a number


class Score(VerifyResponse):
    """Subclass it to name and type the fields of a verifier: `McqaScore(reward=1.0, extracted_answer="B")`.

    The reply holds the fields that were given, in whole; one that was left out, and an empty reason, are not in it.
    """

    reason: str = ""  # why the reward is not the full one

    def to_fields(self) -> dict[str, Any]:
        fields = self.model_dump(exclude_unset=True)
        if not self.reason:
            fields.pop("reason", None)
        return fields


def reward_fields(outcome: Any) -> dict[str, Any]:
    """What a reply says of a reward, from what an author returned for it."""
    if isinstance(outcome, Score):
        fields = outcome.to_fields()
    elif isinstance(outcome, BaseModel):
        fields = outcome.model_dump(mode="json")
    elif isinstance(outcome, Mapping):
        fields = dict(outcome)
    else:
        fields = {"reward": outcome}
    reward = fields.get("reward")
    if "reward" not in fields:
        message = f"verify returned a mapping without `reward`; its keys are: {_keys(fields)}"
        raise RolloutError("resources", message, retryable=False)
    if not _is_finite(reward):
        raise RolloutError(
            "resources", f"verify returned {describe(reward)}: a reward is a finite number", retryable=False
        )
    fields["reward"] = float(reward)
    return fields


def make_writable(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a reply that could not be written, without what is too deep. Names the one that is not JSON."""
    return {name: _make_writable(name, value) for name, value in fields.items()}


def _make_writable(name: str, value: Any) -> Any:
    try:
        write_json({name: value}, option=ANYTHING)
        return value
    except UNWRITABLE as error:
        why: Exception = error
        try:
            if is_too_deep(error):
                return cut_depth(value)
        except TypeError as circle:
            why = circle
        message = f"verify returned a field {name!r} that is not JSON: {why}"
        raise RolloutError("resources", message, retryable=False) from error


def _is_finite(reward: Any) -> TypeGuard[Real]:
    try:
        return isinstance(reward, Real) and math.isfinite(reward)
    except OverflowError:  # an integer or a fraction beyond every float
        return False


def _keys(fields: Mapping[Any, Any]) -> str:
    text = ", ".join(map(str, fields)) or "none"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def describe(reward: Any) -> str:
    """In the same words each time: of failures those with one message are counted as one."""
    if isinstance(reward, Coroutine):
        reward.close()
        return "a coroutine that it did not await"
    if isinstance(reward, Real):
        try:
            return repr(float(reward))
        except OverflowError:
            return "a number beyond every float"
    if isinstance(reward, str | None):
        text = repr(reward)
        return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    return f"an object of type {type(reward).__name__}"

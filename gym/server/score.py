"""`Score`: what `verify` returns when there is more to say than the reward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from pydantic import BaseModel

from gym.wire.failures import RolloutError
from gym.wire.rows import VerifyResponse


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
    if not isinstance(reward, Real) or not math.isfinite(reward):
        raise RolloutError("resources", f"verify returned {reward!r}: a reward is a finite number", retryable=False)
    fields["reward"] = float(reward)
    return fields

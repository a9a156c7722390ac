"""`Score`: what `verify` returns when there is more to say than the reward."""

from __future__ import annotations

from typing import Any

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

"""What a library that owns the loop says of its own play: the reward, and what else belongs into the rollout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PlayVerdict:
    """`fields` stand beside the reward in the verified rollout: scores by name, why the play ended."""

    reward: float
    fields: Mapping[str, Any] = field(default_factory=dict)

    def to_fields(self) -> dict[str, Any]:
        return {**self.fields, "reward": self.reward}

"""What a library's rewards mean: of this step alone, of all steps so far, or only the last one counts."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Literal

from gym.wire.failures import RolloutError

RewardMeaning = Literal["per_step", "cumulative", "final"]


def check_reward(reward: Any, what: str) -> float:
    """The reward as a float. Anything but a finite number is a failure of `what`, which returned it."""
    if not isinstance(reward, Real) or not math.isfinite(reward):
        said = f"{what} returned the reward {reward!r}: a finite number is needed"
        raise RolloutError("resources", said, retryable=False)
    return float(reward)


class RewardReader:
    """Of one episode. What it returns adds up to the episode's reward."""

    def __init__(self, meaning: RewardMeaning) -> None:
        self._meaning = meaning
        self.total = 0.0
        self._of_library = 0.0  # what it has said itself, without rewards of our own

    def read(self, reward: Any, *, ends: bool, what: str) -> float:
        """`what` names the call that returned `reward`."""
        value = check_reward(reward, what)
        if self._meaning == "cumulative":
            value -= self._of_library
        elif self._meaning == "final" and not ends:
            value = 0.0
        self._of_library += value
        return self.add(value)

    def add(self, value: float) -> float:
        """A reward of our own, whatever the library's mean."""
        self.total += value
        return value

"""Levers that pay by chance: try some, then name the best. An environment in RAGEN's style."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from string import ascii_uppercase
from typing import Any


@dataclass
class LeversConfig:
    levers: int = 4
    pulls: int = 12
    noise: int = 15  # a pull pays the lever's mean, plus or minus this at most
    gap: int = 12  # between the best lever's mean and the next one's
    action_lookup: dict[int, str] = field(default_factory=dict)  # its own

    def __post_init__(self) -> None:
        if not (2 <= self.levers <= 26 and 0 <= self.pulls <= 1000 and self.noise >= 0 and 1 <= self.gap <= 60):
            raise ValueError("2 to 26 levers, at most 1000 pulls, a gap from 1 to 60")
        names = ascii_uppercase[: self.levers]
        chosen = {self.levers + place: f"choose {name}" for place, name in enumerate(names, 1)}
        self.action_lookup = {place: f"pull {name}" for place, name in enumerate(names, 1)} | chosen


class Levers:
    """Only the choice pays: 1 for the best lever."""

    def __init__(self, config: LeversConfig | None = None) -> None:
        self.config = config or LeversConfig()

    def reset(self, seed: int | None = None, mode: str | None = None) -> str:
        self.random = Random(f"{mode}:{seed}")
        best = self.random.randint(self.config.gap + 20, 90)
        others = [self.random.randint(10, best - self.config.gap) for _ in range(self.config.levers - 1)]
        self.means = [best, *others]
        self.random.shuffle(self.means)
        self.pulled = 0
        self.said = f"There are levers {self.names[0]} to {self.names[-1]}."
        return self.render()

    def step(self, action: int) -> tuple[str, float, bool, dict[str, Any]]:
        choosing, place = divmod(action - 1, self.config.levers)
        name = self.names[place]
        if choosing:
            right = name == self.best
            self.said = f"You chose {name}. The best lever is {self.best}."
            return self.render(), float(right), True, {"action_is_valid": True, "success": right}
        valid = self.pulled < self.config.pulls
        if valid:
            self.pulled += 1
            paid = self.means[place] + self.random.randint(-self.config.noise, self.config.noise)
            self.said = f"{self.said}\n{name} paid {paid}."
        return self.render(), 0.0, False, {"action_is_valid": valid, "success": False}

    def render(self) -> str:
        return f"{self.said}\nPulls left: {self.config.pulls - self.pulled}."

    @property
    def names(self) -> str:
        return ascii_uppercase[: self.config.levers]

    @property
    def best(self) -> str:
        return self.names[self.means.index(max(self.means))]

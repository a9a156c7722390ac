"""Compares a disturbed collection with one that nothing disturbed: every key once, every reward the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gym.chaos.collector_process import failures_beside

Rewards = Mapping[str, float]


@dataclass
class ChaosVerdict:
    rollouts: int = 0
    second_tries: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0  # another reward
    excused: int = 0  # a reward of 0, no more of them than sandboxes had their disk filled: the policy could do that
    failed: int = 0  # still a failure after the last resume
    examples: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.wrong or self.failed)

    def add(self, output: Path, right: Rewards, filled: int = 0) -> None:
        """`filled`: how many sandboxes had their disk filled, in this collection and those before."""
        counts: Counter[str] = Counter()
        for line in read_rollouts(output):
            stamp = line["_gym"]
            counts[stamp["key"]] += 1
            self.second_tries += stamp["attempt"] > 1
            self._compare(line, right, filled)
        self.rollouts += counts.total()
        self.lost += len(right.keys() - counts.keys())
        self.doubled += sum(count - 1 for count in counts.values()) + len(counts.keys() - right.keys())
        self.failed += sum(1 for _ in read_rollouts(failures_beside(output)))

    def _compare(self, line: Mapping[str, Any], right: Rewards, filled: int) -> None:
        key, reward = line["_gym"]["key"], line["reward"]
        if reward == right.get(key, reward):
            return
        if reward == 0 and self.excused < filled:
            self.excused += 1
            return
        self.wrong += 1
        if len(self.examples) < 5:
            self.examples.append(f"{key}: {reward:g} instead of {right[key]:g}")


def read_rewards(output: Path) -> dict[str, float]:
    return {line["_gym"]["key"]: line["reward"] for line in read_rollouts(output)}


def read_rollouts(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        with path.open("rb") as lines:
            yield from (orjson.loads(line) for line in lines)

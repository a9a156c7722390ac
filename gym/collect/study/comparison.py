"""Two collections of the same tasks, paired: how far their rewards lie apart, whether chance explains it, what flipped.

A task's repeats count as one pair of means: they are not independent of one another.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gym.collect.keys import DigestTable
from gym.collect.study.estimates import Interval, Sample, paired_p_value
from gym.collect.study.recorded import Recorded, mix, read_rollouts
from gym.errors import UserError

By = Literal["row", "index"]
MAX_LISTED = 1000


@dataclass(frozen=True, slots=True)
class Flip:
    """One rollout that ended on the other side of the border."""

    task: int
    repeat: int
    before: float
    after: float
    where_before: str
    where_after: str


@dataclass(slots=True)
class RolloutComparison:
    before: Path
    after: Path
    tasks: int = 0  # paired
    only_before: int = 0
    only_after: int = 0
    mean_before: float = 0.0  # over the paired tasks
    mean_after: float = 0.0
    difference: float = 0.0
    interval: Interval | None = None  # None where there is one pair only
    p_value: float = 1.0
    better: int = 0  # flips upwards
    worse: int = 0
    flips: list[Flip] = field(default_factory=list)  # the first thousand


class _Side:
    """A file's tasks and rollouts, in some 100 bytes a rollout."""

    def __init__(self, path: Path, by: By) -> None:
        self.path = path
        self.keys = array("Q")  # of tasks, in the order of the file
        self.sums = array("d")
        self.counts = array("q")
        self.tasks = DigestTable(values=True)  # key -> place in the three above
        self.rollouts = DigestTable(values=True)  # key -> place in the five below
        self.rewards = array("d")
        self.marks = array("Q")
        self.indices = array("q")
        self.repeats = array("q")
        self.lines = array("q")
        for rollout in read_rollouts(path):
            self._add(rollout, by)
        if not self.rewards:
            raise UserError(f"{path}: no rollouts")

    def _add(self, rollout: Recorded, by: By) -> None:
        task = _task_key(rollout, by)
        mark = mix(task, rollout.repeat)
        if not self.rollouts.add(mark, len(self.rewards)):
            raise UserError(f"{rollout.where}: this rollout is in the file twice", "remove one of the two lines")
        place = self.tasks.get(task)
        if place is None:
            place = len(self.keys)
            self.tasks.add(task, place)
            self.keys.append(task)
            self.sums.append(0.0)
            self.counts.append(0)
        self.sums[place] += rollout.reward
        self.counts[place] += 1
        self.rewards.append(rollout.reward)
        self.marks.append(mark)
        self.indices.append(rollout.task)
        self.repeats.append(rollout.repeat)
        self.lines.append(int(rollout.where.rpartition(":")[2]))

    def mean(self, place: int) -> float:
        return self.sums[place] / self.counts[place]

    def where(self, place: int) -> str:
        return f"{self.path}:{self.lines[place]}"


def compare_rollouts(before: Path, after: Path, *, by: By | None = None, flip_at: float = 0.5) -> RolloutComparison:
    """Pairs by the text of the row, or by `_ng_task_index` where a file has no digests."""
    chosen = by or _choose(before, after)
    first, second = _Side(before, chosen), _Side(after, chosen)
    compared = RolloutComparison(before, after)
    pairs = list(_pair_tasks(first, second))
    compared.tasks = len(pairs)
    compared.only_before = len(first.keys) - len(pairs)
    compared.only_after = len(second.keys) - len(pairs)
    if not pairs:
        raise UserError(_nothing_shared(first, second, chosen), _other_way(chosen))
    compared.mean_before = Sample(one for one, _ in pairs).mean
    compared.mean_after = Sample(other for _, other in pairs).mean
    apart = Sample(other - one for one, other in pairs)
    compared.difference, compared.interval = apart.mean, apart.interval
    compared.p_value = paired_p_value([other - one for one, other in pairs])
    for flip in _find_flips(first, second, flip_at):
        compared.better += flip.after > flip.before
        compared.worse += flip.after < flip.before
        if len(compared.flips) < MAX_LISTED:
            compared.flips.append(flip)
    compared.flips.sort(key=lambda flip: (flip.task, flip.repeat))
    return compared


def _choose(before: Path, after: Path) -> By:
    """By the row, unless one of the files was written by a collector that writes no digests."""
    digests = [next((rollout.digest for rollout in read_rollouts(path)), None) for path in (before, after)]
    return "row" if None not in digests else "index"


def _pair_tasks(first: _Side, second: _Side) -> Iterator[tuple[float, float]]:
    """(mean before, mean after) of each task that both have, in an order that no file decides."""
    for key in sorted(second.keys):
        place, other = first.tasks.get(key), second.tasks.get(key)
        if place is not None and other is not None:
            yield first.mean(place), second.mean(other)


def _find_flips(first: _Side, second: _Side, border: float) -> Iterator[Flip]:
    for other, mark in enumerate(second.marks):
        place = first.rollouts.get(mark)
        if place is None:
            continue
        before, after = first.rewards[place], second.rewards[other]
        if (before >= border) != (after >= border):
            where = first.where(place), second.where(other)
            yield Flip(second.indices[other], second.repeats[other], before, after, *where)


def _task_key(rollout: Recorded, by: By) -> int:
    if by == "index":
        return mix(rollout.task)
    if rollout.digest is None:
        raise UserError(f"{rollout.where}: the line holds no key", "pair the two by their place: --by index")
    return rollout.digest


def _nothing_shared(first: _Side, second: _Side, by: By) -> str:
    what = "row" if by == "row" else "_ng_task_index"
    return f"{first.path} ({len(first.keys):,} tasks) and {second.path} ({len(second.keys):,} tasks) share no {what}"


def _other_way(by: By) -> str:
    if by == "index":
        return "compare two collections of the same data set"
    return "if it is the same data set with changed texts, pair by place: --by index"

"""One run of a comparison, from its columns, some thousand lines at a time."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from gym.collect.study.comparison import By, Side, no_key, there_twice
from gym.collect.study.in_steps import STEP, Steps
from gym.collect.study.recorded import mix
from gym.console.viewer.columns import Columns
from gym.console.viewer.run_files import Run
from gym.errors import UserError

Measure = tuple[str, bool]  # its name, and whether it is a component of the reward
FACTS = ("rewards", "tasks", "repeats", "digests", "numbers", "kinds")
MEASURES = {"tokens in": "tokens_in", "tokens out": "tokens_out", "seconds": "seconds", "steps": "steps"}


class RunSide(Side):
    """Plain dicts: four times as fast as the tables of `gym compare`, and gone as soon as the runs are compared."""

    def __init__(self, snapshot: RunSnapshot) -> None:
        super().__init__(snapshot.run.path)
        self.snapshot = snapshot
        self.tasks: dict[int, int] = {}
        self.rollouts: dict[int, int] = {}
        self.seen = 0  # lines
        self.firsts = array("I")  # the first line of a task
        self.measures: dict[Measure, TaskMeans] = {}

    def titles(self, tasks: Collection[int]) -> dict[int, str]:
        """What was asked in tasks of these numbers. With the lock of the files."""
        found: dict[int, str] = {}
        for number, line in zip(self.numbers, self.firsts, strict=True):
            if number in tasks and number not in found:
                found[number] = self.snapshot.columns.title(line)
        return found

    def add(self, by: By, start: int, facts: Sequence[Sequence[Any]]) -> array[int]:
        """The places of tasks of these lines, -1 for what has none."""
        texts, places = self.snapshot.columns.texts, array("i")
        failed = {kind for kind in set(facts[-1]) if texts[kind]}
        for line, (reward, task, repeat, digest, number, kind) in enumerate(zip(*facts, strict=True), start):
            if reward != reward or task < 0 or kind in failed:
                places.append(-1)
                continue
            if by == "row" and not digest:
                raise no_key(self.path, number)
            key = digest if by == "row" else mix(task)
            mark = mix(key, max(repeat, 0))
            if self.rollouts.setdefault(mark, len(self.rewards)) != len(self.rewards):
                raise there_twice(self.path, number)
            place = self.tasks.setdefault(key, len(self.keys))
            if place == len(self.keys):
                self.keys.append(key)
                self.sums.append(0.0)
                self.counts.append(0)
                self.numbers.append(task)
                self.firsts.append(line)
            self.sums[place] += reward
            self.counts[place] += 1
            self.rewards.append(reward)
            self.marks.append(mark)
            self.indices.append(task)
            self.repeats.append(max(repeat, 0))
            self.lines.append(number)
            places.append(place)
        return places


class TaskMeans:
    """The mean of one number of the rollouts, by task."""

    def __init__(self) -> None:
        self.sums = array("d")
        self.counts = array("I")

    def add(self, tasks: int, places: Sequence[int], values: Sequence[float], least: float) -> None:
        """What is below `least`, and NaN, is not a value."""
        missing = tasks - len(self.sums)
        self.sums.extend((0.0,) * missing)
        self.counts.extend((0,) * missing)
        sums, counts = self.sums, self.counts
        for place, value in zip(places, values, strict=True):
            if place >= 0 and value >= least:
                sums[place] += value
                counts[place] += 1

    def mean(self, place: int) -> float:
        return self.sums[place] / self.counts[place]


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run as it is when its comparison begins: it may grow meanwhile."""

    run: Run
    columns: Columns
    count: int

    @classmethod
    def of(cls, run: Run) -> RunSnapshot:
        return cls(run, run.rollouts.columns, len(run.rollouts.columns))

    def stands(self) -> bool:
        """Its file was not rewritten."""
        return self.run.rollouts.columns is self.columns

    def first_digest(self) -> int:
        """Of the first rollout that names its task."""
        columns, texts = self.columns, self.columns.texts
        facts = columns.rewards, columns.tasks, columns.digests, columns.kinds
        for reward, task, digest, kind in zip(*(one[: self.count] for one in facts), strict=True):
            if reward == reward and task >= 0 and not texts[kind]:
                return int(digest)
        raise UserError(f"{self.run.name} has no verified rollouts that name their task yet")


def read_side(side: RunSide, by: By, names: Sequence[str], lock: AbstractContextManager[Any]) -> Steps[RunSide]:
    """`names`: of components of the reward, which are means by task too. Each step is some lines."""
    snapshot, columns = side.snapshot, side.snapshot.columns
    side.measures = {measure: TaskMeans() for measure in name_measures(names)}
    for start in range(0, snapshot.count, STEP):
        end = min(start + STEP, snapshot.count)
        with lock:
            facts = [columns.column(name)[start:end] for name in FACTS]
            values = {measure: _column(columns, measure)[start:end] for measure in side.measures}
        places = side.add(by, start, facts)
        for measure, means in side.measures.items():
            means.add(len(side.keys), places, values[measure], -math.inf if measure[1] else 0)
        side.seen = end
        yield
    return side


def name_measures(components: Iterable[str]) -> list[Measure]:
    return [*((name, False) for name in MEASURES), *((name, True) for name in components)]


def _column(columns: Columns, measure: Measure) -> array[Any]:
    name, is_component = measure
    return columns.components[name] if is_component else columns.column(MEASURES[name])

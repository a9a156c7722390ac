"""Rollouts of one task side by side: those whose rewards disagree first, or in another order."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gym.console.viewer.lines import LineFile
from gym.console.viewer.query import Places


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """`task` is -1 where a line names none; such a line stands alone."""

    run: str
    task: int
    places: array[int]  # packed, in the order of the repeats
    rewards: array[float]  # of those that have one

    @property
    def spread(self) -> float:
        return max(self.rewards) - min(self.rewards) if self.rewards else 0.0

    @property
    def mean(self) -> float:
        return math.fsum(self.rewards) / len(self.rewards) if self.rewards else math.nan


def group_places(files: Mapping[int, LineFile], places: Places, sort: str) -> list[TaskGroup]:
    groups: dict[tuple[str, int], TaskGroup] = {}
    number, tasks, rewards, run = -1, array("i"), array("d"), ""
    for place in places.packed:
        if place >> Places.BITS != number:
            number = place >> Places.BITS
            tasks, rewards, run = files[number].columns.tasks, files[number].columns.rewards, files[number].run
        index = place & Places.MASK
        task = tasks[index]
        key = (run, task if task >= 0 else -1 - place)
        group = groups.get(key)
        if group is None:
            group = groups[key] = TaskGroup(run, task, array("Q"), array("d"))
        group.places.append(place)
        if (reward := rewards[index]) == reward:
            group.rewards.append(reward)
    found = list(groups.values())
    if sort != "file":
        found.sort(key=_key(files, sort))
    return found


def in_order(files: Mapping[int, LineFile], group: TaskGroup) -> list[int]:
    """By repeat; what was tried again stays in the order of the file."""
    return sorted(group.places, key=lambda place: files[place >> Places.BITS].columns.repeats[place & Places.MASK])


def _key(files: Mapping[int, LineFile], sort: str) -> Callable[[TaskGroup], tuple[float, ...]]:
    """What is not known comes last."""
    if sort == "disagree":
        return lambda group: (-group.spread, *_task(group))
    if sort == "task":
        return _task
    name, back = sort.lstrip("-"), sort.startswith("-")

    def by_mean(group: TaskGroup) -> tuple[float, ...]:
        mean = group.mean if name == "reward" else _mean(files, group, name)
        return (1, 0) if math.isnan(mean) else (0, -mean if back else mean)

    return by_mean


def _task(group: TaskGroup) -> tuple[float, ...]:
    return group.task < 0, group.task


def _mean(files: Mapping[int, LineFile], group: TaskGroup, name: str) -> float:
    values = [files[place >> Places.BITS].columns.column(name)[place & Places.MASK] for place in group.places]
    known = [value for value in values if value >= 0]  # -1 and NaN are not
    return math.fsum(known) / len(known) if known else math.nan

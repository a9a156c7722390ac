"""Rollouts of one task side by side: those whose rewards disagree first, or in another order.

Held as columns too: an object for each of 25,000 tasks would cost a request a tenth of a second.
"""

from __future__ import annotations

import bisect
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, islice, pairwise
from operator import le, ne
from typing import Any, NamedTuple

from gym.console.viewer.lines import LineFile
from gym.console.viewer.query import Places

_LAST = 1 << 32


class TaskGroup(NamedTuple):
    """`task` is -1 where a line names none; such a line stands alone."""

    run: str
    task: int
    places: array[int]  # packed, in the order of the file
    spread: float  # between its lowest reward and its highest
    mean: float  # NaN where there is no reward


@dataclass(slots=True)
class TaskGroups(Sequence[TaskGroup]):
    """In their order."""

    places: array[int] = field(default_factory=lambda: array("Q"))  # those of a group together
    bounds: array[int] = field(default_factory=lambda: array("Q", [0]))  # where each group begins, and the last ends
    tasks: array[int] = field(default_factory=lambda: array("i"))
    spreads: array[float] = field(default_factory=lambda: array("d"))
    means: array[float] = field(default_factory=lambda: array("d"))
    runs: list[tuple[int, str]] = field(default_factory=list)  # (first group, name)
    order: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, at: Any) -> Any:
        return [self._make(one) for one in self.order[at]] if isinstance(at, slice) else self._make(self.order[at])

    def _make(self, number: int) -> TaskGroup:
        run = self.runs[bisect.bisect_right(self.runs, number, key=lambda one: one[0]) - 1][1]
        places = self.places[self.bounds[number] : self.bounds[number + 1]]
        return TaskGroup(run, self.tasks[number], places, self.spreads[number], self.means[number])


def group_places(files: Mapping[int, LineFile], places: Places, sort: str) -> TaskGroups:
    found = TaskGroups()
    for run, parts in _by_run(files, places.packed).items():
        found.runs.append((len(found.tasks), run))
        _add_run(found, files, parts)
    found.order = _sorted(found, files, sort)
    return found


def in_order(files: Mapping[int, LineFile], group: TaskGroup) -> list[int]:
    """By repeat; what was retried stays in the order of the file."""
    return sorted(group.places, key=lambda place: files[place >> Places.BITS].columns.repeats[place & Places.MASK])


def _by_run(files: Mapping[int, LineFile], packed: array[int]) -> dict[str, list[array[int]]]:
    """Places of one file stand together, in the order of the files."""
    found: dict[str, list[array[int]]] = {}
    begin = 0
    while begin < len(packed):
        number = packed[begin] >> Places.BITS
        end = bisect.bisect_left(packed, (number + 1) << Places.BITS, begin)
        found.setdefault(files[number].run, []).append(packed[begin:end])
        begin = end
    return found


def _add_run(found: TaskGroups, files: Mapping[int, LineFile], parts: Sequence[array[int]]) -> None:
    packed, tasks, rewards = array("Q"), array("i"), array("d")
    for part in parts:
        packed += part
        tasks += _taken(files, "tasks", part)
        rewards += _taken(files, "rewards", part)
    if not all(map(le, tasks, islice(tasks, 1, None))):  # else they stand as they should, as most files have them
        order = sorted(range(len(packed)), key=tasks.__getitem__)
        packed, tasks, rewards = (_in_turn(one, order) for one in (packed, tasks, rewards))
    base, alone = len(found.places), bisect.bisect_left(tasks, 0)
    changes = chain((True,), map(ne, islice(tasks, alone + 1, None), islice(tasks, alone, None)))
    begins = [*range(alone), *compress(range(alone, len(tasks)), changes)]
    found.places.extend(packed)
    found.tasks.extend([tasks[at] for at in begins])
    found.bounds.extend([base + at for at in [*begins[1:], len(tasks)]])
    for known in _known(rewards, [*begins, len(tasks)]):
        found.spreads.append(max(known) - min(known) if known else 0.0)
        found.means.append(math.fsum(known) / len(known) if known else math.nan)


def _in_turn(column: array[Any], order: Sequence[int]) -> array[Any]:
    return array(column.typecode, [column[each] for each in order])


def _taken(files: Mapping[int, LineFile], name: str, part: array[int]) -> array[Any]:
    """Of places of one file."""
    column = files[part[0] >> Places.BITS].columns.column(name)
    if len(part) == len(column):
        return column
    return array(column.typecode, [column[place & Places.MASK] for place in part])


def _taken_any(files: Mapping[int, LineFile], name: str, places: array[int]) -> array[float]:
    """Of places of several files."""
    columns = {number: file.columns.column(name) for number, file in files.items()}
    if len(columns) == 1:
        [column] = columns.values()
        return array("d", map(column.__getitem__, map(Places.MASK.__and__, places)))
    return array("d", [columns[place >> Places.BITS][place & Places.MASK] for place in places])


def _known(values: array[Any], bounds: Sequence[int]) -> Iterator[Sequence[float]]:
    """The values of each group; NaN is none."""
    some = any(map(ne, values, values))
    for begin, end in pairwise(bounds):
        group = values[begin:end]
        yield [value for value in group if value == value] if some else group


def _sorted(found: TaskGroups, files: Mapping[int, LineFile], sort: str) -> Sequence[int]:
    """What is not known comes last; equals stay by task."""
    every = range(len(found.tasks))
    keys = [task if task >= 0 else _LAST for task in found.tasks]
    by_task = sorted(every, key=keys.__getitem__)
    if sort == "task":
        return by_task
    if sort == "file":
        return sorted(every, key=[found.places[begin] for begin in found.bounds[:-1]].__getitem__)
    name, back = sort.lstrip("-"), sort.startswith("-")
    if sort == "disagree":
        values, back = found.spreads, True
    elif name == "reward":
        values = found.means
    else:
        values = _means(found, files, name)
    unknown = [number for number in by_task if values[number] != values[number]] if any(map(ne, values, values)) else []
    known = [number for number in by_task if values[number] == values[number]] if unknown else by_task
    return sorted(known, key=values.__getitem__, reverse=back) + unknown


def _means(found: TaskGroups, files: Mapping[int, LineFile], name: str) -> array[float]:
    """-1 and NaN are not known."""
    means = array("d")
    for group in _known(_taken_any(files, name, found.places), found.bounds):
        values = [value for value in group if value >= 0]
        means.append(math.fsum(values) / len(values) if values else math.nan)
    return means

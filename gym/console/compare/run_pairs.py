"""Two runs of the same tasks, from their columns: what differs, by how much, and whether chance explains it."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from gym.collect.study.comparison import By, Flip, RolloutComparison, TaskPair, compare_in_steps, pair_places, task_pair
from gym.collect.study.estimates import EXACT, Sample, p_value_in_steps
from gym.collect.study.in_steps import STEP, Steps, gather
from gym.console.compare.run_side import Measure, RunSide, RunSnapshot, TaskMeans, name_measures
from gym.console.runs.run_tally import Moments
from gym.console.viewer.run_files import Run

MAX_POINTS = 2_000  # of the scatter; more are taken evenly
MAX_MEASURES = 24


class Asked(NamedTuple):
    """How runs are to be compared."""

    by: By | None  # by the row's text where both say it
    flip_at: float


def choose(before: RunSnapshot, after: RunSnapshot, by: By | None) -> By:
    digests = [one.first_digest() for one in (before, after)]
    return by or ("row" if all(digests) else "index")


def shared_components(before: RunSnapshot, after: RunSnapshot) -> list[str]:
    return sorted(before.columns.components.keys() & after.columns.components.keys())[:MAX_MEASURES]


def compare_sides_in_steps(
    first: RunSide, second: RunSide, asked: Asked, lock: AbstractContextManager[Any]
) -> Steps[dict[str, Any]]:
    chosen = asked.by or "index"
    places = yield from gather(pair_places(first, second))
    yield
    pairs = yield from gather(task_pair(first, second, *both) for both in places)
    compared = yield from compare_in_steps(first, second, pairs, chosen, asked.flip_at)
    if chosen == "index":
        places.sort(key=lambda both: second.numbers[both[1]])
    measures = []
    for measure in name_measures(shared_components(first.snapshot, second.snapshot)):
        found = yield from _compare_measure(measure, first, second, places)
        measures += [found] if found else []
    with lock:
        return _view(first, second, pairs, compared) | {"by": chosen, "flip_at": asked.flip_at, "measures": measures}


def _view(first: RunSide, second: RunSide, pairs: Sequence[TaskPair], compared: RolloutComparison) -> dict[str, Any]:
    points = pairs[:: math.ceil(len(pairs) / MAX_POINTS) or 1]
    titles = second.titles({one.task for one in points} | {one.task for one in compared.flips})
    return {
        "tasks": compared.tasks,
        "only_before": compared.only_before,
        "only_after": compared.only_after,
        "mean_before": compared.mean_before,
        "mean_after": compared.mean_after,
        "difference": compared.difference,
        "interval": compared.interval and tuple(compared.interval),
        "p_value": compared.p_value,
        "better": compared.better,
        "worse": compared.worse,
        "flips": [_flip_view(flip, first.snapshot.run, second.snapshot.run, titles) for flip in compared.flips],
        "points": [[one.task, one.before, one.after, titles.get(one.task, "")] for one in points],
    }


def _flip_view(flip: Flip, before: Run, after: Run, titles: Mapping[int, str]) -> dict[str, Any]:
    return {
        "task": flip.task,
        "repeat": flip.repeat,
        "before": flip.before,
        "after": flip.after,
        "id_before": f"{before.name}:{flip.where_before.rpartition(':')[2]}",
        "id_after": f"{after.name}:{flip.where_after.rpartition(':')[2]}",
        "title": titles.get(flip.task, ""),
    }


def _compare_measure(
    measure: Measure, first: RunSide, second: RunSide, places: Sequence[tuple[int, int]]
) -> Steps[dict[str, Any] | None]:
    """Tokens, time, steps, and the numbers that the verifier added: paired by task as the rewards are."""
    befores, afters, apart = array("d"), array("d"), Moments()
    for start in range(0, len(places), STEP):
        fresh = _means(first.measures[measure], second.measures[measure], places[start : start + STEP])
        for before, after in fresh:
            befores.append(before)
            afters.append(after)
            apart.add(after - before)
        yield
    if not befores:
        return None
    interval, p_value = apart.interval, apart.p_value
    if len(befores) <= EXACT:  # too few for the normal distribution: of five it said p < 0.001 where 0.06 is the least
        differences = [after - before for before, after in zip(befores, afters, strict=True)]
        interval, p_value = Sample(differences).interval, (yield from p_value_in_steps(differences))
    return {
        "name": measure[0],
        "tasks": len(befores),
        "before": math.fsum(befores) / len(befores),
        "after": math.fsum(afters) / len(afters),
        "difference": apart.mean,
        "interval": tuple(interval) if interval else None,
        "p_value": p_value,
    }


def _means(first: TaskMeans, second: TaskMeans, places: Iterable[tuple[int, int]]) -> Iterator[tuple[float, float]]:
    for place, other in places:
        if first.counts[place] and second.counts[other]:
            yield first.mean(place), second.mean(other)

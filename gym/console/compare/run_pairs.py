"""Two runs of the same tasks, from their columns: what differs, by how much, and whether chance explains it."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gym.collect.study.comparison import By, ComparedSide, Flip, Tried, compare_sides, pair_tasks
from gym.console.runs.run_tally import Moments
from gym.console.viewer.columns import Columns
from gym.console.viewer.run_files import Run
from gym.errors import UserError

MAX_POINTS = 2_000  # of the scatter; more are taken evenly
MAX_MEASURES = 24


@dataclass(frozen=True, slots=True)
class _Measure:
    name: str
    column: Callable[[Columns], array[Any] | None]


def compare_runs(before: Run, after: Run, by: By | None, flip_at: float) -> dict[str, Any]:
    """As `gym compare` has it, with every task's pair, and the other numbers of the rollouts beside the reward."""
    chosen = by or _choose(before, after)
    first, second = (ComparedSide(run.path, chosen, tries_of(run.rollouts.columns)) for run in (before, after))
    compared = compare_sides(first, second, chosen, flip_at=flip_at)
    points = list(pair_tasks(first, second))
    titles = _titles(after.rollouts.columns)
    step = math.ceil(len(points) / MAX_POINTS)
    return {
        "by": chosen,
        "flip_at": flip_at,
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
        "flips": [_flip_view(flip, before, after, titles) for flip in compared.flips],
        "points": [[one.task, one.before, one.after, titles.get(one.task, "")] for one in points[:: step or 1]],
        "measures": list(_compare_measures(before.rollouts.columns, after.rollouts.columns, chosen)),
    }


def tries_of(columns: Columns) -> Iterator[Tried]:
    """The verified rollouts; what has no place among the tasks cannot be paired."""
    texts = columns.texts
    facts = columns.rewards, columns.tasks, columns.repeats, columns.digests, columns.numbers, columns.kinds
    for reward, task, repeat, digest, line, kind in zip(*facts, strict=True):
        if reward == reward and task >= 0 and not texts[kind]:
            yield Tried(reward, task, max(repeat, 0), digest or None, line)


def _choose(before: Run, after: Run) -> By:
    """By the row's text where both say it."""
    for run in (before, after):
        if not any(True for _ in tries_of(run.rollouts.columns)):
            raise UserError(f"{run.name} has no verified rollouts that name their task yet")
    digests = [next(tries_of(run.rollouts.columns)).digest for run in (before, after)]
    return "row" if all(digests) else "index"


def _titles(columns: Columns) -> Mapping[int, str]:
    found: dict[int, str] = {}
    for index, task in enumerate(columns.tasks):
        if task >= 0 and task not in found:
            found[task] = columns.title(index)
    return found


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


def _compare_measures(before: Columns, after: Columns, by: By) -> Iterator[dict[str, Any]]:
    """Tokens, time, steps, and the numbers that the verifier added: paired by task as the rewards are."""
    for measure in _measures(before, after):
        first, second = (_means(one, measure.column(one), by) for one in (before, after))
        shared = sorted(first.keys() & second.keys())
        if not shared:
            continue
        apart = Moments()
        for key in shared:
            apart.add(second[key] - first[key])
        yield {
            "name": measure.name,
            "tasks": len(shared),
            "before": math.fsum(first[key] for key in shared) / len(shared),
            "after": math.fsum(second[key] for key in shared) / len(shared),
            "difference": apart.mean,
            "interval": apart.interval,
            "p_value": apart.p_value,
        }


def _measures(before: Columns, after: Columns) -> Iterator[_Measure]:
    yield _Measure("tokens in", lambda one: one.tokens_in)
    yield _Measure("tokens out", lambda one: one.tokens_out)
    yield _Measure("seconds", lambda one: one.seconds)
    yield _Measure("steps", lambda one: one.steps)
    for name in sorted(before.components.keys() & after.components.keys())[:MAX_MEASURES]:
        yield _Measure(name, _component(name))


def _component(name: str) -> Callable[[Columns], array[Any] | None]:
    return lambda one: one.components.get(name)


def _means(columns: Columns, values: array[Any] | None, by: By) -> dict[int, float]:
    """By task; NaN and -1 are no values of tokens and time."""
    sums: dict[int, tuple[float, int]] = {}
    keys = columns.digests if by == "row" else columns.tasks
    unsigned = values is not None and values.typecode in "if"
    facts = zip(keys, columns.tasks, columns.rewards, values or (), strict=bool(values))
    for key, task, reward, value in facts:
        if task < 0 or reward != reward or value != value or (unsigned and value < 0):
            continue
        total, count = sums.get(key, (0.0, 0))
        sums[key] = total + value, count + 1
    return {key: total / count for key, (total, count) in sums.items()}

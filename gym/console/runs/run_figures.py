"""What the page says of one run, from its sums and its columns: plain data."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from gym.console.runs.run_tally import AgentTally, Moments, RunTally, TaskTally
from gym.console.viewer.columns import Columns
from gym.console.viewer.facts import MALFORMED
from gym.console.viewer.query import draw_bars
from gym.wire.metrics import pass_at_k

POINTS, LEAST_POINTS = 60, 5  # of the curve over time
LEAST_A_POINT = 10  # rollouts, where there are enough
MAX_COMPONENTS = 24
SAMPLED = 20_000  # lines of which the histograms of components and the percentiles are drawn
MAX_AGENTS = 200
MAX_TITLE = 160
RATE_SECONDS = 60.0


def figures_of(tally: RunTally, pass_at: float) -> dict[str, Any]:
    columns = tally.columns
    seconds = _total(one.seconds for one in tally.agents.values())
    by_task = mean_by_task(tally.tasks.values())
    return {
        "count": sum(one.rollouts for one in tally.agents.values()),
        "failed": sum(one.failed for one in tally.agents.values()),
        "malformed": tally.malformed,
        "mean": tally.rewards.mean,
        "interval": by_task.interval,
        "tasks": len(tally.tasks),
        "began": _known(tally.began),
        "last": _known(tally.last),
        "rate": _rate(tally),
        "bars": draw_bars(columns.rewards),
        "curve": draw_curve(list(tally.finished())),
        "components": _components(columns),
        "agents": [_agent_view(one) for one in sorted(tally.agents.values(), key=lambda one: one.name)][:MAX_AGENTS],
        "kinds": [{"kind": kind, "count": count} for kind, count in tally.kinds.most_common() if kind != MALFORMED],
        "pass_at": pass_at,
        "passes": draw_passes(tally.tasks.values(), pass_at),
        "tokens": _tokens(tally),
        "hops": _hops(tally, seconds.mean),
        "percentiles": _percentiles(columns.seconds),
        "truncated": sum(one.truncated for one in tally.agents.values()),
        "breaks": sum(one.breaks for one in tally.agents.values()),
    }


def mean_by_task(tasks: Iterable[TaskTally]) -> Moments:
    """Repeats of a task are no independent tries: each task counts once."""
    moments = Moments()
    for one in tasks:
        if one.rewards:
            moments.add(one.mean)
    return moments


def draw_curve(points: Sequence[tuple[float, float]]) -> list[dict[str, float | None]]:
    """The mean reward of each part of a run in the order in which its rollouts ended, with 95 % of chance."""
    size = max(math.ceil(len(points) / POINTS), min(LEAST_A_POINT, math.ceil(len(points) / LEAST_POINTS)), 1)
    found = []
    for start in range(0, len(points), size):
        part = points[start : start + size]
        moments = Moments()
        for _, reward in part:
            moments.add(reward)
        low, high = moments.interval or (None, None)
        ended = max((end for end, _ in part if end == end), default=None)
        found.append({"at": ended, "mean": moments.mean, "low": low, "high": high, "count": len(part)})
    return found


def draw_passes(tasks: Iterable[TaskTally], pass_at: float) -> list[tuple[int, float, int]]:
    """(k, pass@k, over how many tasks): each k over those that were tried so often."""
    groups = Counter((len(one.rewards), one.passed(pass_at)) for one in tasks if one.rewards)
    most = max((count for count, _ in groups), default=0)
    found = []
    for k in _powers(most):
        fit = [(tries, passed, times) for (tries, passed), times in groups.items() if tries >= k]
        count = sum(times for *_, times in fit)
        found.append((k, sum(pass_at_k(tries, passed, k) * times for tries, passed, times in fit) / count, count))
    return found


def task_rows(
    tally: RunTally, sort: str, start: int, count: int, pass_at: float, run: str
) -> tuple[int, list[dict[str, Any]]]:
    """(all, a page of the table)."""
    tasks = list(tally.tasks.values())
    tasks.sort(key=_TASK_KEYS[sort.lstrip("-")], reverse=sort.startswith("-"))
    columns = tally.columns
    return len(tasks), [_task_view(one, columns, pass_at, run) for one in tasks[start : start + count]]


_TASK_KEYS: dict[str, Any] = {
    "task": lambda one: (one.task < 0, one.task, one.agent),
    "mean": lambda one: one.mean if one.rewards else -math.inf,
    "spread": lambda one: one.spread,
    "tries": lambda one: len(one.rewards),
    "tokens": lambda one: one.tokens,
    "seconds": lambda one: one.seconds,
}
TASK_SORTS = frozenset(f"{sign}{name}" for name in _TASK_KEYS for sign in ("", "-"))


def _task_view(one: TaskTally, columns: Columns, pass_at: float, run: str) -> dict[str, Any]:
    tries = len(one.rewards)
    return {
        "task": one.task if one.task >= 0 else None,
        "agent": columns.texts[one.agent],
        "title": columns.title(one.first)[:MAX_TITLE],
        "id": f"{run}:{columns.numbers[one.first]}",
        "tries": tries,
        "passed": one.passed(pass_at),
        "mean": one.mean if tries else None,
        "spread": one.spread,
        "low": min(one.rewards, default=None),
        "high": max(one.rewards, default=None),
        "tokens": one.tokens / tries if tries else None,
        "seconds": one.seconds / tries if tries else None,
    }


def _agent_view(one: AgentTally) -> dict[str, Any]:
    return {
        "name": one.name,
        "count": one.rollouts,
        "failed": one.failed,
        "mean": one.rewards.mean,
        "interval": one.rewards.interval,
        "seconds": one.seconds.mean,
        "tokens": (one.tokens_in + one.tokens_out) / one.counted if one.counted else None,
        "steps": one.steps / one.rollouts if one.rollouts else None,
        "truncated": one.truncated,
        "breaks": one.breaks,
    }


def _components(columns: Columns) -> list[dict[str, Any]]:
    names = sorted(columns.components)[:MAX_COMPONENTS]
    return [{"name": name, **_histogram(_evenly(columns.components[name]))} for name in names]


def _histogram(values: Sequence[float]) -> dict[str, Any]:
    known = [value for value in values if value == value]
    return {"count": len(known), "mean": math.fsum(known) / len(known) if known else None, "bars": draw_bars(known)}


def _evenly(values: array[float]) -> array[float]:
    return values[:: math.ceil(len(values) / SAMPLED)] if len(values) > SAMPLED else values


def _percentiles(seconds: array[float]) -> dict[str, float]:
    known = sorted(value for value in _evenly(seconds) if value == value)
    if not known:
        return {}
    return {name: known[min(int(part * len(known)), len(known) - 1)] for name, part in _PARTS.items()}


_PARTS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def _tokens(tally: RunTally) -> dict[str, Any] | None:
    counted = sum(one.counted for one in tally.agents.values())
    if not counted:
        return None
    into, out = (sum(getattr(one, name) for one in tally.agents.values()) for name in ("tokens_in", "tokens_out"))
    span = tally.last - tally.began
    a_second = out / span if math.isfinite(span) and span > 0 else None
    return {"in": into, "out": out, "each_in": into / counted, "each_out": out / counted, "out_a_second": a_second}


def _hops(tally: RunTally, seconds: float | None) -> dict[str, Any] | None:
    """Milliseconds of a rollout on the average: each hop, and the rest of its time that no hop names."""
    if not tally.hops or seconds is None:
        return None
    count = max(one.count for one in tally.hops.values())
    named = {name: one.total / count for name, one in sorted(tally.hops.items(), key=lambda pair: -pair[1].total)}
    whole = 1000 * seconds
    rest = max(whole - sum(named.values()), 0.0)
    return {"hops": named, "rest": rest, "whole": whole, "queued": 1000 * (tally.queued.mean or 0.0)}


def _rate(tally: RunTally) -> float | None:
    """Rollouts a second over the last minute of the run."""
    columns = tally.columns
    if not math.isfinite(tally.last):
        return None
    border, count, first = tally.last - RATE_SECONDS, 0, tally.last
    for began, seconds in zip(reversed(columns.began), reversed(columns.seconds), strict=True):
        ended = began + (seconds if seconds == seconds else 0.0)
        if not ended >= border:
            break
        count, first = count + 1, min(first, began)
    return count / (tally.last - first) if count and tally.last > first else None


def _total(moments: Iterable[Moments]) -> Moments:
    found = Moments()
    for one in moments:
        found.count += one.count
        found.total += one.total
        found.squares += one.squares
    return found


def _powers(most: int) -> list[int]:
    """1, 2, 4 … and the last."""
    found = [1 << each for each in range(most.bit_length()) if 1 << each <= most]
    return found if not found or found[-1] == most else [*found, most]


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None

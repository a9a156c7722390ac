"""What the page says of one run, from its sums and its columns: plain data."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gym.collect.study.in_steps import Steps
from gym.console.runs.agent_passes import TaskPasses, choose_k, draw_passes, group_tasks, sum_agents
from gym.console.runs.run_tally import AgentTally, Moments, RunTally, interval_of
from gym.console.runs.task_sums import count_passed
from gym.console.viewer.facts import MALFORMED
from gym.console.viewer.query import draw_bars
from gym.wire.metrics import pass_at_k

POINTS, LEAST_POINTS = 60, 5  # of the curve over time
POINTS_A_STEP = 10
LEAST_A_POINT = 10  # rollouts, where there are enough
MAX_COMPONENTS = 24
SAMPLED = 20_000  # lines of which the histograms of components and the percentiles are drawn
MAX_AGENTS = 200
RATE_SECONDS = 60.0


def sum_up(tally: RunTally) -> dict[str, Any]:
    """What is known while a run is still counted. Its sums alone: nothing here looks at every rollout or task."""
    agents = list(tally.agents.values())  # at once: another request may count meanwhile
    return {
        "count": sum(one.rollouts for one in agents),
        "failed": sum(one.failed for one in agents),
        "malformed": tally.malformed,
        "mean": tally.rewards.mean,
        "interval": None,
        "tasks": len(tally.tasks),
        "began": _known(tally.began),
        "last": _known(tally.last),
        "agents": [_agent_view(one) for one in sorted(agents, key=lambda one: one.name)][:MAX_AGENTS],
        "kinds": [_kind_view(tally, kind, count) for kind, count in _by_count(tally) if kind != MALFORMED],
        "tokens": _tokens(tally, agents),
        "truncated": sum(one.truncated for one in agents),
        "breaks": sum(one.breaks for one in agents),
    }


@dataclass(frozen=True, slots=True)
class FiguresSnapshot:
    """A run at one moment: what its drawings are made of, and its sums. The run may grow meanwhile."""

    changes: int
    sums: dict[str, Any]
    hops: dict[str, Any] | None
    last: float
    rewards: array[float]  # these three: of lines that have a reward
    ends: array[float]
    places: array[int]
    began: array[float]
    seconds: array[float]
    components: dict[str, array[float]]  # a sample
    tries: array[int]  # these four: of tasks
    means: array[float]
    owners: array[int]  # their agents, as numbers of `names`
    spreads: array[float]
    names: list[str]


def take_snapshot(tally: RunTally) -> FiguresSnapshot:
    """With the tally's lock and that of the files: copies, a few milliseconds."""
    columns, seen = tally.columns, tally.seen
    seconds = _total(one.seconds for one in tally.agents.values())
    names = sorted(columns.components)[:MAX_COMPONENTS]
    return FiguresSnapshot(
        changes=tally.changes,
        sums=sum_up(tally),
        hops=_hops(tally, seconds.mean),
        last=tally.last,
        rewards=tally.known_rewards[:],
        ends=tally.known_ends[:],
        places=tally.known_places[:],
        began=columns.began[:seen],
        seconds=columns.seconds[:seen],
        components={name: _evenly(columns.components[name][:seen]) for name in names},
        tries=tally.tasks.tries[:],
        means=tally.tasks.means(),
        owners=tally.tasks.agents[:],
        spreads=tally.tasks.spreads(),
        names=list(columns.texts),
    )


def draw_figures(snapshot: FiguresSnapshot, pass_at: float, k: int) -> Steps[dict[str, Any]]:
    """`k`: of pass@k beside each agent; 0 chooses one."""
    passed = count_passed(snapshot.places, snapshot.rewards, pass_at, len(snapshot.tries))
    yield
    interval = interval_of(snapshot.means)
    yield
    groups = group_tasks(snapshot.owners, snapshot.tries, passed)
    yield
    passes = draw_passes(groups.items())
    k = k or choose_k(passes)
    by_agent = yield from sum_agents(snapshot.owners, snapshot.spreads, groups, snapshot.tries, k)
    bars = draw_bars(snapshot.rewards)
    yield
    curve = yield from _gather_curve(snapshot)
    rate = _rate(snapshot)
    yield
    components = []
    for name, values in snapshot.components.items():
        components.append({"name": name, **_histogram(values)})
        yield
    return snapshot.sums | {
        "interval": interval,
        "rate": rate,
        "bars": bars,
        "curve": curve,
        "components": components,
        "pass_at": pass_at,
        "passes": passes,
        "k": k,
        "agents": _with_passes(snapshot, by_agent),
        "hops": snapshot.hops,
        "percentiles": _percentiles(snapshot.seconds),
    }


def _gather_curve(snapshot: FiguresSnapshot) -> Steps[list[dict[str, float | None]]]:
    found = []
    for point in draw_curve(snapshot.ends, snapshot.rewards):
        found.append(point)
        if not len(found) % POINTS_A_STEP:
            yield
    return found


def draw_curve(ends: Sequence[float], rewards: Sequence[float]) -> Iterator[dict[str, float | None]]:
    """The mean reward of each part of a run in the order in which its rollouts ended, with 95 % of chance."""
    count = len(rewards)
    size = max(math.ceil(count / POINTS), min(LEAST_A_POINT, math.ceil(count / LEAST_POINTS)), 1)
    for start in range(0, count, size):
        moments = Moments()
        moments.take(rewards[start : start + size])
        low, high = moments.reward_interval or (None, None)
        ended = max((end for end in ends[start : start + size] if end == end), default=None)
        yield {"at": ended, "mean": moments.mean, "low": low, "high": high, "count": moments.count}


def task_rows(tally: RunTally, places: Sequence[int], passes: TaskPasses, run: str) -> list[dict[str, Any]]:
    """A part of the table. With the tally's lock and that of the files."""
    found = []
    for place in places:
        line, passed = tally.columns.numbers[tally.tasks.firsts[place]], passes.passed[place]
        view = tally.tasks.view(place, tally.columns)
        at_k = pass_at_k(view["tries"], passed, passes.k) if view["tries"] >= passes.k else None
        found.append({**view, "id": f"{run}:{line}", "passed": passed, "pass_at_k": at_k})
    return found


def _kind_view(tally: RunTally, kind: str, count: int) -> dict[str, Any]:
    return {"kind": kind, "count": count, "examples": tally.examples.of(kind)}


def _with_passes(snapshot: FiguresSnapshot, by_agent: Mapping[int, dict[str, Any]]) -> list[dict[str, Any]]:
    passes = {snapshot.names[number]: one for number, one in by_agent.items()}
    return [{**one, **passes.get(one["name"], {})} for one in snapshot.sums["agents"]]


def _agent_view(one: AgentTally) -> dict[str, Any]:
    return {
        "name": one.name,
        "count": one.rollouts,
        "failed": one.failed,
        "mean": one.rewards.mean,
        "interval": one.rewards.reward_interval,
        "seconds": one.seconds.mean,
        "tokens": (one.tokens_in + one.tokens_out) / one.counted if one.counted else None,
        "steps": one.steps / one.rollouts if one.rollouts else None,
        "truncated": one.truncated,
        "breaks": one.breaks,
    }


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


def _by_count(tally: RunTally) -> list[tuple[str, int]]:
    return Counter(dict(tally.kinds)).most_common()


def _tokens(tally: RunTally, agents: Sequence[AgentTally]) -> dict[str, Any] | None:
    counted = sum(one.counted for one in agents)
    if not counted:
        return None
    into, out = (sum(getattr(one, name) for one in agents) for name in ("tokens_in", "tokens_out"))
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


def _rate(snapshot: FiguresSnapshot) -> float | None:
    """Rollouts a second over the last minute of the run."""
    if not math.isfinite(snapshot.last):
        return None
    border, count, first = snapshot.last - RATE_SECONDS, 0, snapshot.last
    for began, seconds in zip(reversed(snapshot.began), reversed(snapshot.seconds), strict=True):
        ended = began + (seconds if seconds == seconds else 0.0)
        if not ended >= border:
            break
        count, first = count + 1, min(first, began)
    return count / (snapshot.last - first) if count and snapshot.last > first else None


def _total(moments: Iterable[Moments]) -> Moments:
    found = Moments()
    for one in moments:
        found.count += one.count
        found.total += one.total
        found.squares += one.squares
    return found


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None

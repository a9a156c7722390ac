"""How hard each task is for the policy that was collected, and the data set without the too easy and too hard ones.

A rollout's numbers are stored, eight bytes each; rows are read from the inputs when they are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from gym.collect.keys import DoneKeys
from gym.collect.result_file import result_file, write_result
from gym.collect.sidecar import OutputPaths
from gym.collect.study.recorded import (
    Inputs,
    is_whole,
    mix,
    original_text,
    read_places,
    read_rollouts,
)
from gym.collect.study.tries import NumberTable, extra_metrics
from gym.data.rates import PassRange
from gym.data.row_parsing import AGENT_REF
from gym.errors import UserError
from gym.wire.deep_values import write_cut
from gym.wire.metrics import ROLLOUT, TASK, describe_columns

Difficulty = Literal["too easy", "too hard", "between"]
MAX_LISTED = 1000


@dataclass(frozen=True, slots=True)
class DifficultyBounds:
    """Of a task's mean reward; where rewards are 0 or 1 that is its pass rate."""

    too_easy: float = 1.0
    too_hard: float = 0.0

    def judge(self, mean: float) -> Difficulty:
        if mean >= self.too_easy:
            return "too easy"
        return "too hard" if mean <= self.too_hard else "between"


@dataclass(frozen=True, slots=True)
class TaskRate:
    task: int
    agent: str
    mean: float
    count: int
    where: str  # of its first input
    difficulty: Difficulty


@dataclass(slots=True)
class Profile:
    """What `profile_rollouts` found; the lists of tasks are cut at a thousand, the counts are not."""

    tasks_file: Path
    agents_file: Path
    agents: list[dict[str, Any]] = field(default_factory=list)
    missing: int = 0
    counts: dict[str, dict[Difficulty, int]] = field(default_factory=dict)  # by agent
    hardest: list[TaskRate] = field(default_factory=list)
    easiest: list[TaskRate] = field(default_factory=list)
    kept: int = 0  # rows

    def add(self, rate: TaskRate) -> None:
        counted = self.counts.setdefault(rate.agent, {})
        counted[rate.difficulty] = counted.get(rate.difficulty, 0) + 1
        listed = {"too easy": self.easiest, "too hard": self.hardest}.get(rate.difficulty)
        if listed is not None and len(listed) < MAX_LISTED:
            listed.append(rate)


def profile_rollouts(
    paths: OutputPaths,
    inputs: Inputs,
    *,
    bounds: DifficultyBounds,
    partial: bool = False,
    keep: tuple[float, float] | None = None,
    keep_file: Path | None = None,
) -> Profile:
    """Writes X_reward_profiling.jsonl and X_agent_metrics.json; with `keep`, also the rows whose mean lies between."""
    tables = _read_tables(paths, inputs)
    stem = paths.rollouts.with_suffix("") if paths.rollouts.suffix == ".jsonl" else paths.rollouts
    profile = Profile(
        tasks_file=stem.with_name(f"{stem.name}_reward_profiling.jsonl"),
        agents_file=stem.with_name(f"{stem.name}_agent_metrics.json"),
        missing=inputs.total - sum(map(len, tables.values())),
    )
    if not (partial or is_whole(paths)):
        raise UserError(
            f"the collection of {paths.rollouts} has not ended", "finish it: gym rollouts; or add --partial"
        )
    if profile.missing and not partial:
        raise UserError(_missing(profile.missing, inputs.total, paths), "finish it: gym rollouts; or add --partial")
    means: dict[int, float] = {}
    with result_file(profile.tasks_file, replace=True) as stream:
        for agent, table in sorted(tables.items()):
            for task, line in _task_lines(agent, table, inputs, bounds, profile):
                means[task] = line["mean/reward"]
                stream.write(write_cut(line) + b"\n")
    for agent, table in sorted(tables.items()):
        ref = {AGENT_REF: {"name": agent}}
        profile.agents.append({**ref, **table.described(), **extra_metrics(table)})
    write_result(profile.agents_file, orjson.dumps(profile.agents, option=orjson.OPT_INDENT_2))
    if keep is not None and keep_file is not None:
        profile.kept = _write_kept(inputs, means, keep, keep_file)
    return profile


def _read_tables(paths: OutputPaths, inputs: Inputs) -> dict[str, NumberTable]:
    tables: dict[str, NumberTable] = {}
    seen = DoneKeys()
    for rollout in read_rollouts(paths.rollouts):
        if not seen.add(mix(rollout.task), rollout.repeat):
            what = f"task {rollout.task}, repeat {rollout.repeat} is there twice"
            raise UserError(f"{rollout.where}: {what}", "remove one of the two lines")
        if not inputs.expected(rollout.task):
            inputs.need(rollout)
        tables.setdefault(rollout.agent, NumberTable()).add(rollout.fields, rollout.reward)
    if not tables:
        raise UserError(f"{paths.rollouts}: no rollouts")
    return tables


def _missing(missing: int, total: int, paths: OutputPaths) -> str:
    failed = sum(1 for _ in read_places(paths.failures)) if paths.failures.is_file() else 0
    failures = f" ({failed:,} of them in {paths.failures})" if failed else ""
    return f"{missing:,} of {total:,} rollouts are not in {paths.rollouts}{failures}"


def _task_lines(
    agent: str, table: NumberTable, inputs: Inputs, bounds: DifficultyBounds, profile: Profile
) -> Iterator[tuple[int, dict[str, Any]]]:
    for task, places in table.groups():
        rows = [table.at(place) for place in places]
        columns: dict[str, list[float]] = {}
        for row in rows:
            for name, value in row.items():
                columns.setdefault(name, []).append(value)
        first = inputs.at(inputs.first_line(task))
        expected = inputs.expected(task)
        described = describe_columns(columns)
        mean = described["mean/reward"]
        difficulty = bounds.judge(mean)
        profile.add(TaskRate(task, agent, mean, len(places), first.where, difficulty))
        infos = [
            {"rollout_id": f"{task}:{table.repeats[place]}", **row} for place, row in zip(places, rows, strict=True)
        ]
        yield (
            task,
            {
                TASK: task,
                AGENT_REF: {"name": agent},
                "sample": {name: value for name, value in first.fields.items() if name != ROLLOUT},
                **described,
                "num_rollouts": len(places),
                "expected_num_rollouts": expected,
                "missing_num_rollouts": expected - len(places),
                "reward_profile_completion_pct": 100.0 * len(places) / expected,
                "difficulty": difficulty,
                "rollout_infos": infos,
            },
        )


def _write_kept(inputs: Inputs, means: dict[int, float], keep: tuple[float, float], path: Path) -> int:
    """The rows as they stood in the data set, once each. A task without a rollout is not known to lie between."""
    between = PassRange(*keep)
    if not any(between.holds(mean) for mean in means.values()):
        return 0  # and no file: an empty data set is of no use
    kept = 0
    with result_file(path) as stream:
        for task, number in inputs.tasks():
            if between.holds(means.get(task, math.nan)):
                stream.write(original_text(inputs.at(number)) + b"\n")
                kept += 1
    return kept

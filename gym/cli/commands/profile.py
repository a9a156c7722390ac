"""`gym profile X`: how hard each task was, and a data set without what is too easy or too hard."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.options import AsJson
from gym.cli.study_options import InputsFile, Rollouts, need_number, show_facts, show_some
from gym.collect.study.difficulty import DifficultyBounds, Profile, TaskRate, profile_rollouts
from gym.collect.study.recorded import find_rollouts, open_inputs
from gym.data.whole_files import refuse_other_form
from gym.errors import UserError

Easy = Annotated[
    float, typer.Option("--too-easy", metavar="MEAN", help="A task's mean reward from here on.", callback=need_number)
]
Hard = Annotated[
    float, typer.Option("--too-hard", metavar="MEAN", help="A task's mean reward up to here.", callback=need_number)
]
Keep = Annotated[
    tuple[float, float] | None, typer.Option("--keep-between", metavar="LO HI", help="Write the rows between, to -o.")
]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="The data set that is kept.")]
Partial = Annotated[bool, typer.Option("--partial", help="Even if rollouts are missing.")]


def command(
    rollouts: Rollouts,
    too_easy: Easy = 1.0,
    too_hard: Hard = 0.0,
    keep_between: Keep = None,
    output: Output = None,
    inputs: InputsFile = None,
    partial: Partial = False,
    as_json: AsJson = False,
) -> int:
    """Show how hard each task was; keep those between: gym profile X --keep-between 0.1 0.9 -o new.jsonl."""
    if (keep_between is None) != (output is None):
        raise UserError("--keep-between and -o go together.", "gym profile X.jsonl --keep-between 0.1 0.9 -o new.jsonl")
    if keep_between and not keep_between[0] <= keep_between[1]:
        low, high = keep_between
        raise UserError(f"--keep-between {low:g} {high:g}: LO is not below HI", "--keep-between 0.1 0.9")
    if output:
        refuse_other_form(output)
    paths = find_rollouts(rollouts)
    with open_inputs(inputs or paths.materialized) as asked:
        profile = profile_rollouts(
            paths,
            asked,
            bounds=DifficultyBounds(too_easy, too_hard),
            partial=partial,
            keep=keep_between,
            keep_file=output,
        )
    if as_json:
        console.show_json(asdict(profile))
    else:
        _show(profile, output)
    return int(output is not None and not profile.kept)


def _show(profile: Profile, output: Path | None) -> None:
    columns = ("AGENT", "TASKS", "MEAN REWARD", "TOO EASY", "BETWEEN", "TOO HARD")
    rows = [
        (
            agent,
            f"{sum(counted.values()):,}",
            f"{metrics['mean/reward']:.3f}",
            *(f"{counted.get(kind, 0):,}" for kind in ("too easy", "between", "too hard")),
        )
        for metrics in profile.agents
        for agent, counted in profile.counts.items()
        if metrics["agent_ref"]["name"] == agent
    ]
    console.show(console.make_table(columns, rows, right=columns[1:]))
    for title, rates in (("TOO HARD", profile.hardest), ("TOO EASY", profile.easiest)):
        if rates:
            console.show()
            show_some((title, "TASK", "MEAN", "ROLLOUTS"), [_rate(one) for one in rates], right=("MEAN", "ROLLOUTS"))
    console.show()
    show_facts(
        {
            "tasks": str(profile.tasks_file),
            "agents": str(profile.agents_file),
            "kept": _kept(profile, output) if output else "",
            "missing": f"{profile.missing:,} rollouts" if profile.missing else "",
        }
    )


def _kept(profile: Profile, output: Path) -> str:
    return f"{profile.kept:,} rows in {output}" if profile.kept else f"none lies between, so {output} was not written"


def _rate(one: TaskRate) -> tuple[str, ...]:
    return one.where, str(one.task), f"{one.mean:.3f}", f"{one.count:,}"

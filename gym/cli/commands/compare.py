"""`gym compare A B`: two collections of the same tasks, their difference, and whether chance explains it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gym.cli import console
from gym.cli.options import AsJson
from gym.cli.study_options import need_number, show_facts, show_some
from gym.collect.study.comparison import By, RolloutComparison, compare_rollouts
from gym.collect.study.recorded import find_rollouts

CHANCE = 0.05  # a p-value from here on: the usual border

Before = Annotated[Path, typer.Argument(metavar="A.jsonl", help="The collection before.")]
After = Annotated[Path, typer.Argument(metavar="B.jsonl", help="The collection after.")]
Pairing = Annotated[
    By | None, typer.Option("--by", help="Pair tasks by the row's text (as a rule), or by its index in the data set.")
]
FlipAt = Annotated[
    float,
    typer.Option("--flip-at", metavar="REWARD", help="Rollouts that cross it have flipped.", callback=need_number),
]


def command(before: Before, after: After, by: Pairing = None, flip_at: FlipAt = 0.5, as_json: AsJson = False) -> int:
    """Compare two collections, paired by task: gym compare before.jsonl after.jsonl."""
    paths = find_rollouts(before).rollouts, find_rollouts(after).rollouts
    with console.busy(f"comparing {before} and {after}"):
        compared = compare_rollouts(*paths, by=by, flip_at=flip_at)
    if as_json:
        console.show_json(asdict(compared))
    else:
        _show(compared)
    return 0


def _show(compared: RolloutComparison) -> None:
    console.show(Text(verdict(compared), style="bold"))
    console.show()
    if compared.flips:
        columns = ("FLIPPED", "A", "B", "IN A", "IN B")
        rows = [
            (f"task {one.task}.{one.repeat}", f"{one.before:g}", f"{one.after:g}", one.where_before, one.where_after)
            for one in compared.flips
        ]
        show_some(columns, rows, right=("A", "B"))
        console.show()
    show_facts(
        {
            "A": f"{compared.mean_before:.4f}  {compared.before}",
            "B": f"{compared.mean_after:.4f}  {compared.after}",
            "B - A": f"{compared.difference:+.4f}  {_interval(compared)}, p = {_p(compared.p_value)}",
            "tasks": f"{compared.tasks:,} paired{_unpaired(compared)}",
            "flips": f"{compared.better:,} better, {compared.worse:,} worse",
        }
    )


def verdict(compared: RolloutComparison) -> str:
    """What one wants to know, before the figures that it stands on."""
    by = f"by {abs(compared.difference):.4f}"
    if compared.interval is None:
        return f"One task alone says nothing: B - A = {compared.difference:+.4f}."
    if compared.difference == 0:
        return "B is as good as A."
    which = "better" if compared.difference > 0 else "worse"
    if compared.p_value < CHANCE:
        return f"B is {which} {by}; chance does not explain it."
    return f"No clear difference: B is {which} {by}, which may be chance."


def _interval(compared: RolloutComparison) -> str:
    if compared.interval is None:
        return "one task alone has no interval"
    return f"95 % from {compared.interval.low:+.4f} to {compared.interval.high:+.4f}"


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "less than 0.0001"


def _unpaired(compared: RolloutComparison) -> str:
    if not compared.only_before + compared.only_after:
        return ""
    return f"; unpaired: {compared.only_before:,} of A, {compared.only_after:,} of B"

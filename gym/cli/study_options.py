"""The options of commands that follow a collection, and their lists, which are cut at twenty."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gym.cli import console
from gym.cli.caller_token import read_token
from gym.cli.stack_session import router_of
from gym.collect.study.rerun import OnProgress, RerunOptions, RerunResult

MAX_SHOWN = 20


def need_number(value: float) -> float:
    """Of an option: nothing is above or below NaN."""
    if math.isnan(value):
        raise typer.BadParameter("it must be a number")
    return value


Rollouts = Annotated[Path, typer.Argument(metavar="X.jsonl", help="What gym rollouts -o wrote.")]
InputsFile = Annotated[
    Path | None, typer.Option("--inputs", metavar="FILE", help="X_materialized_inputs.jsonl, where it lies elsewhere.")
]
Concurrency = Annotated[int, typer.Option("--concurrency", metavar="P", min=1, max=1000, help="Rollouts at once.")]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="For one rollout.")]


def rerun_options(stack: str, url: str, token_file: Path | None, concurrency: int, timeout: float) -> RerunOptions:
    return RerunOptions(
        stack_url=url or router_of(stack),
        token=read_token(token_file, os.environ),
        concurrency=concurrency,
        timeout=timeout,
    )


@contextmanager
def count_up(what: str) -> Iterator[OnProgress]:
    """A line that counts on a terminal; elsewhere one every ten seconds."""
    counted = [0, 0]

    def report(done: int, differing: int) -> None:
        counted[:] = done, differing

    with console.busy(lambda: f"{what} {counted[0]:,}, {counted[1]:,} differ"):
        yield report


def show_differences(result: RerunResult) -> None:
    """Every difference with its file and line, up to twenty; then the totals."""
    columns = ("WHERE", "WHAT", "RECORDED", "NOW")
    rows = [(one.where, one.what, one.recorded, one.now) for one in result.differences]
    if rows:
        show_some(columns, rows)
        console.show()
    facts = {
        "rollouts": f"{result.checked:,}",
        "calls": f"{result.calls:,}" if result.calls else "",
        "differ": f"{result.differing:,}" + (f" ({result.failed:,} failed)" if result.failed else ""),
        "mean": _means(result),
        "output": str(result.output or ""),
    }
    show_facts(facts)


def show_some(columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()) -> None:
    console.show(console.make_table(columns, rows[:MAX_SHOWN], right=right))
    if len(rows) > MAX_SHOWN:
        console.show(f"... and more: --json lists {len(rows):,}")


def show_facts(facts: dict[str, str]) -> None:
    wide = max(map(len, facts))
    for name, value in facts.items():
        if value:
            console.show(Text.assemble((f"{name:<{wide}}  ", "bold"), value))


def _means(result: RerunResult) -> str:
    if result.mean_recorded is None or result.mean_now is None:
        return ""
    return f"{result.mean_recorded:.3f} recorded, {result.mean_now:.3f} now"

"""`gym export X --to sft|dpo|parquet`: rollouts as trainers eat them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.study_options import MAX_SHOWN, Rollouts, need_number
from gym.collect.study.chats import ArgumentForm
from gym.collect.study.recorded import find_rollouts
from gym.collect.study.training_data import Exported, ExportOptions, Form, export_rollouts
from gym.data.whole_files import refuse_other_form

To = Annotated[Form, typer.Option("--to", help="Conversations, preference pairs, or a table of all rollouts.")]
Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where the examples go.")]


MinReward = Annotated[
    float,
    typer.Option("--min-reward", metavar="R", help="sft: only rollouts as good as this.", callback=need_number),
]
Margin = Annotated[
    float, typer.Option("--margin", metavar="R", min=0, help="dpo: best and worst at least so far apart.")
]
Arguments = Annotated[
    ArgumentForm,
    typer.Option("--arguments", help="sft, dpo: of tool calls; text for chat templates that want it (deepseekv3)."),
]
SkipBad = Annotated[bool, typer.Option("--skip-bad-rows", help="List rollouts that no chat can say, and go on.")]


def command(
    rollouts: Rollouts,
    to: To,
    output: Output,
    min_reward: MinReward = 1.0,
    margin: Margin = 0.0,
    skip_bad_rows: SkipBad = False,
    arguments: Arguments = "object",
) -> int:
    """Write training data: gym export X.jsonl --to sft -o sft.jsonl."""
    refuse_other_form(output, table=to == "parquet")
    options = ExportOptions(
        form=to,
        output=output,
        min_reward=min_reward,
        margin=margin,
        skip_bad_rows=skip_bad_rows,
        arguments=arguments,
    )
    with console.busy(f"reading {rollouts}"):
        exported = export_rollouts(find_rollouts(rollouts).rollouts, options)
    for line in exported.left_out[:MAX_SHOWN]:
        console.note(f"left out: {line}", style="yellow")
    console.show(f"{exported.written:,} {_unit(to)} from {exported.read:,} rollouts in {output}{_rest(to, exported)}")
    return 0


def _unit(to: Form) -> str:
    return {"sft": "conversations", "dpo": "pairs", "parquet": "rows"}[to]


def _rest(to: Form, exported: Exported) -> str:
    why = {"sft": "rollouts below --min-reward", "dpo": "tasks whose rewards do not differ enough"}.get(to)
    notes = [f"{exported.below:,} {why}"] if exported.below else []
    notes += [f"{exported.dropped:,} left out"] if exported.dropped else []
    return f" ({', '.join(notes)})" if notes else ""

"""`gym merge OUT IN...`: the shards of one collection, or the parts of a queue, as one, checked to be whole."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.study_options import show_facts
from gym.collect.study.merged import Merged
from gym.collect.study.shards import merge_shards
from gym.data.whole_files import refuse_other_form

Output = Annotated[Path, typer.Argument(metavar="OUT.jsonl", help="The collection to make.")]
Shards = Annotated[list[Path], typer.Argument(metavar="IN.jsonl...", help="What gym rollouts wrote, part by part.")]
Partial = Annotated[bool, typer.Option("--partial", help="Even if shards or rollouts are missing.")]


def command(output: Output, shards: Shards, partial: Partial = False) -> int:
    """Join shards, or a queue's parts: gym merge all.jsonl part-*.jsonl."""
    refuse_other_form(output)
    with console.busy(f"joining {len(shards)} files"):
        merged = merge_shards(output, shards, partial=partial)
    show_facts(
        {
            "merged": f"{merged.shards:,} {merged.what}, {merged.rollouts:,} rollouts",
            "left out": f"{merged.doubled:,} that a second collector did as well" if merged.doubled else "",
            "failures": f"{merged.failures:,}" if merged.failures else "",
            "missing": _missing(merged),
            "output": str(merged.output),
        }
    )
    return 0


def _missing(merged: Merged) -> str:
    missing = [f"shard {number}" for number in merged.missing_shards]
    missing += [f"{merged.missing:,} rollouts"] if merged.missing else []
    return ", ".join(missing)

"""`gym data sample`: so many rows of a data set, by chance."""

from __future__ import annotations

from typing import Annotated

import typer

from gym.cli import console
from gym.cli.data.common import Files, Output, Seed
from gym.data.output import refuse_inputs, whole_file
from gym.data.sample import sample_rows
from gym.data.source import expand_inputs

Count = Annotated[int, typer.Option("-n", "--count", metavar="N", min=1, help="How many rows.")]


def command(files: Files, count: Count, output: Output, seed: Seed = 0) -> int:
    """Take N rows by chance, in their order: gym data sample train.jsonl -n 100 -o some.jsonl."""
    inputs = expand_inputs(files)
    refuse_inputs([output], inputs)
    with whole_file(output) as file:
        for line in sample_rows(inputs, count, seed=seed):
            file.write(line.raw + b"\n")
    console.show(f"{count:,} rows in {output}")
    return 0

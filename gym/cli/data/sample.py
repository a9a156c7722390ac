"""`gym data sample`: a random sample of a data set's rows."""

from __future__ import annotations

from typing import Annotated

import typer

from gym.cli import console
from gym.cli.data.common import Files, Output, Seed
from gym.data.line_source import expand_inputs
from gym.data.sampling import sample_rows
from gym.data.whole_files import refuse_inputs, refuse_other_form, whole_file

Count = Annotated[int, typer.Option("-n", "--count", metavar="N", min=1, help="How many rows.")]


def command(files: Files, count: Count, output: Output, seed: Seed = 0) -> int:
    """Take N random rows, in their order: gym data sample train.jsonl -n 100 -o some.jsonl."""
    inputs = expand_inputs(files)
    refuse_other_form(output)
    refuse_inputs([output], inputs)
    with whole_file(output) as file:
        for line in sample_rows(inputs, count, seed=seed):
            file.write(line.raw + b"\n")
    console.show(f"{count:,} rows in {output}")
    return 0

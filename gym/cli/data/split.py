"""`gym data split`: a data set in parts that do not leak into one another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.data.common import Files, Seed
from gym.data.line_source import expand_inputs, read_some_lines
from gym.data.splitting import parse_ratio, split_rows
from gym.data.whole_files import refuse_file_name, refuse_inputs

Ratio = Annotated[str, typer.Option("--ratio", metavar="NAME=SHARE,...", help="The parts and their shares.")]
By = Annotated[str, typer.Option("--by", metavar="FIELD", help="Rows with the same value stay together.")]
Folder = Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where NAME.jsonl of each part is put.")]


def command(
    files: Files, output: Folder, ratio: Ratio = "train=0.9,validation=0.1", seed: Seed = 0, by: By = ""
) -> int:
    """Split rows; those with the same user messages, or the same FIELD, stay together."""
    refuse_file_name(output)
    inputs = expand_inputs(files)
    parts = parse_ratio(ratio, seed=seed, field=by)
    paths = {name: output / f"{name}.jsonl" for name in parts.names}
    refuse_inputs(paths.values(), inputs)
    counts = split_rows(read_some_lines(inputs), parts, paths)
    total = max(1, counts.total())
    rows = [(name, f"{counts[name]:,}", f"{counts[name] / total:.1%}", str(paths[name])) for name in parts.names]
    console.show(console.make_table(("PART", "ROWS", "SHARE", "FILE"), rows, right=("ROWS", "SHARE")))
    for name in parts.names:
        if not counts[name]:
            console.note(f"{name} got no row: its share of so few groups is too small", style="yellow")
    return 0

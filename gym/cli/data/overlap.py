"""`gym data overlap`: rows of one data set that are in others too, word for word or nearly."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.options import AsJson
from gym.cli.study_options import show_facts, show_some
from gym.data.contamination import NearRules, Overlap, find_overlap
from gym.data.line_source import expand_inputs
from gym.data.whole_files import refuse_inputs, refuse_other_form, whole_file
from gym.errors import UserError

First = Annotated[str, typer.Argument(metavar="A", help="The data set that is checked, e.g. what is trained on.")]
Others = Annotated[list[str], typer.Argument(metavar="B...", help="What it must not hold: validation, benchmarks.")]
Size = Annotated[int, typer.Option("--ngram", metavar="N", min=1, max=100, help="Words of an n-gram.")]
Share = Annotated[
    float, typer.Option("--threshold", metavar="S", min=0.01, max=1.0, help="Share of a row of B that is found in A.")
]
Drop = Annotated[bool, typer.Option("--drop", help="Write A without the rows that were found, to -o.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="A without them.")]


def command(
    first: First,
    others: Others,
    ngram: Size = 13,
    threshold: Share = 0.5,
    drop: Drop = False,
    output: Output = None,
    as_json: AsJson = False,
) -> int:
    """Find rows of A that are in B, exactly or nearly: gym data overlap train.jsonl bench.jsonl."""
    if drop != (output is not None):
        raise UserError("--drop and -o go together.", "gym data overlap train.jsonl bench.jsonl --drop -o clean.jsonl")
    if output:
        refuse_other_form(output)
    files, against = expand_inputs([first]), expand_inputs(others)
    if both := {Path(one).resolve() for one in files} & {Path(one).resolve() for one in against}:
        raise UserError(f"{min(both)} is on both sides", "name A first, then the others")
    refuse_inputs([output] if output else [], [*files, *against])
    with whole_file(output) if output else nullcontext() as clean, console.busy(f"reading {first}"):
        found = find_overlap(files, against, NearRules(ngram, threshold), clean=clean)
    if as_json:
        console.show_json({**asdict(found), "matches": [one._asdict() for one in found.matches]})
    else:
        _show(found, output)
    return int(found.found > 0)


def _show(found: Overlap, output: Path | None) -> None:
    if found.matches:
        rows = [(one.row, one.other, "the same" if one.exact else f"{one.share:.0%}") for one in found.matches]
        show_some(("ROW", "STANDS IN", "SHARE"), rows, right=("SHARE",))
        console.show()
    show_facts(
        {
            "rows": f"{found.rows:,} against {found.others:,}",
            "the same": f"{found.exact:,}",
            "nearly": f"{found.near:,}",
            "found in": ", ".join(f"{file} {count:,}" for file, count in sorted(found.by_file.items())),
            "not looked at": f"{found.without_text:,} rows without words of a user" if found.without_text else "",
            "written": f"{found.rows - found.found:,} rows in {output}" if output else "",
        }
    )

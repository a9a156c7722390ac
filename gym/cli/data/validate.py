"""`gym data validate`: checks every line against the contract and its server's own fields."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.data.data_arguments import find_inputs, find_stack, row_servers, sort_out
from gym.cli.options import AsJson
from gym.data.findings import Fold
from gym.data.quarantine import plan_quarantine, write_apart
from gym.data.row_rules import MAX_LINE, RowRules
from gym.data.row_servers import agent_names
from gym.data.validation import BlockResult, Validator

Given = Annotated[
    list[str] | None, typer.Argument(metavar="NAME|CONFIG|FILE", help="Servers, configurations, files of rows or -.")
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, max=256, help="Processes; default: one a core.")]
MaxLine = Annotated[int, typer.Option("--max-line", metavar="BYTES", min=1, help="The longest line that is read.")]
Quarantine = Annotated[
    Path | None, typer.Option("--quarantine", metavar="DIR", help="Write good and bad lines apart, into this folder.")
]
Contract = Annotated[bool, typer.Option("--contract", help="The contract alone; no server's own fields.")]


def command(
    items: Given = None,
    jobs: Jobs = None,
    max_line: MaxLine = MAX_LINE,
    quarantine: Quarantine = None,
    contract: Contract = False,
    as_json: AsJson = False,
) -> int:
    """Check every line of data sets; exit code 1 where something is wrong."""
    given = sort_out(items or [])
    stack = find_stack(given)
    inputs, missing = find_inputs(given, stack)
    servers = row_servers(stack)
    rules = RowRules(agents=agent_names(stack) if stack is not None else None, max_line=max_line)
    find = (lambda _: None) if contract else servers.find
    results = Validator(rules, find, jobs or len(os.sched_getaffinity(0))).check(inputs)
    if quarantine is not None:
        results = write_apart(results, plan_quarantine([one.file for one in inputs], quarantine))
    rows, bad, fold, notes = _count(results)
    notes = [*(f"{path} is not here: not checked" for path in missing), *dict.fromkeys([*servers.notes, *notes])]
    for note in notes:
        console.note(note, style="yellow")
    summary = {"files": len(inputs), "rows": rows, "bad_rows": bad}
    if as_json:
        found = [one.as_json() for one in fold]
        console.show_json({**summary, "notes": notes, "findings": found, "left_out": fold.left_out})
        return int(len(fold) > 0)
    for one in fold:
        console.show_raw(str(one))
    if fold.left_out:
        console.show_raw(f"… and {fold.left_out:,} findings of other kinds")
    files = f"{len(inputs)} file{'s' if len(inputs) > 1 else ''}"
    console.note(f"{rows:,} row{'' if rows == 1 else 's'} in {files}, {bad:,} of them bad")
    return int(len(fold) > 0)


def _count(results: Iterable[BlockResult]) -> tuple[int, int, Fold, list[str]]:
    fold, rows, bad = Fold(), 0, 0
    notes: dict[str, None] = {}
    for result in results:
        rows, bad = rows + result.rows, bad + len(result.bad)
        fold.merge(result.found, result.found.left_out)
        notes.update(dict.fromkeys(result.notes))
    return rows, bad, fold, list(notes)

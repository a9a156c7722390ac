"""`gym doctor`: what this machine lacks to run stacks, each finding with the command that fixes it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from rich.text import Text

from gym.cli import console
from gym.cli.machine_checks import MachineFinding, run_checks
from gym.cli.options import AsJson

MARKS = {"ok": ("ok  ", "green"), "warn": ("warn", "yellow"), "fail": ("fail", "bold red")}


def command(as_json: AsJson = False) -> int:
    """Check this machine; exit code 1 when something that is needed is missing."""
    with console.busy("checking this machine and its engine"):
        findings = run_checks(os.environ)
    if as_json:
        console.show_json([finding._asdict() for finding in findings])
    else:
        rows = [row for finding in findings for row in _rows(finding)]
        console.show(console.make_table(("", "", ""), rows))
    return int(any(finding.level == "fail" for finding in findings))


def _rows(finding: MachineFinding) -> Iterator[tuple[str | Text, ...]]:
    """What was found, and below it what fixes it."""
    yield Text(*MARKS[finding.level]), finding.name, finding.found
    if finding.fix:
        yield "", "", Text(finding.fix, style="cyan")

"""`gym test NAME`: a server's own tests in its own environment, and whether its folder is whole."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gym.cli import console
from gym.cli.environments import pytest_command
from gym.cli.selftest import Report, test_server
from gym.config import CatalogEntry, find_server, list_servers, search_roots
from gym.errors import UserError

AT_ONCE = 2


def command(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Servers.")] = None,
    all_servers: Annotated[bool, typer.Option("--all", help="Every server that `gym list` shows.")] = False,
) -> int:
    """Run the tests of servers, each in its own environment, and check that their folders are whole."""
    entries = _find_entries(names or [], all_servers=all_servers)
    reports = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for report in pool.map(lambda entry: test_server(entry, pytest_command), entries):
            reports.append(report)
            _show_trouble(report)
    if len(reports) > 1 or reports[0].passed:
        columns = ("SERVER", "", "TESTS", "TIME")
        console.show(console.make_table(columns, map(_row, reports), right=("TIME",)))
    return int(not all(report.passed for report in reports))


def _find_entries(names: list[str], *, all_servers: bool) -> list[CatalogEntry]:
    roots = search_roots(Path.cwd(), os.environ)
    if all_servers:
        return list(list_servers(roots))
    if not names:
        raise UserError("Which server? None is named.", "gym test NAME, or gym test --all")
    return [find_server(name, roots) for name in names]


def _show_trouble(report: Report) -> None:
    if report.output:
        console.show_raw(f"{report.name}:\n{report.output.rstrip()}\n")
    for problem in report.problems:
        console.note(f"{report.name}: {problem}", style="yellow")


def _row(report: Report) -> tuple[str | Text, ...]:
    verdict = Text("passed", style="green") if report.passed else Text("failed", style="bold red")
    return report.name, verdict, report.tests, f"{report.seconds:.1f}s"

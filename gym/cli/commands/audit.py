"""`gym audit NAME`: what a verifier pays for right, worthless and hostile answers, its speed, its memory."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gym.cli import console
from gym.cli.environments import cached_python
from gym.cli.options import AsJson
from gym.cli.verifying import audit_server
from gym.config import find_server, search_roots
from gym.errors import UserError


def command(
    name: Annotated[str, typer.Argument(help="A resources server's name, as `gym list` shows it.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer verifies; the memory figure says little.")] = False,
    as_json: AsJson = False,
) -> int:
    """Measure how good an environment's verifier is.

    Example: gym audit mcqa
    """
    entry = find_server(name, search_roots(Path.cwd(), os.environ))
    if entry.type != "resources_servers":
        raise UserError(f"{entry.name} has no verifier: only resources servers do.", "`gym list --type resources`")
    with console.busy(f"auditing {entry.name}: " + ("seconds" if quick else "up to some minutes")):
        findings = audit_server(entry, cached_python, quick=quick)
    if as_json:
        console.show_json([asdict(one) for one in findings])
    else:
        passed, failed = Text("passed", style="green"), Text("failed", style="bold red")
        rows = [(one.check, passed if one.passed else failed, one.detail) for one in findings]
        console.show(console.make_table(("CHECK", "", "FOUND"), rows))
    return int(not all(one.passed for one in findings))

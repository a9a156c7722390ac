"""`gym list`: the servers that `gym up` finds by name, from the checkout, the working directory and GYM_PATH."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from gym.cli import console
from gym.cli.live import KINDS
from gym.cli.options import AsJson
from gym.config import list_servers, search_roots


def command(
    kind: Annotated[
        Literal["resources", "agent", "model"] | None,
        typer.Option("--type", metavar="resources|agent|model", help="Only these."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List the servers that can be named."""
    found = list_servers(search_roots(Path.cwd(), os.environ))
    servers = [one for one in found if kind in (None, KINDS[one.type])]
    if as_json:
        console.show_json([one.model_dump(mode="json") for one in servers])
        return 0
    rows = [(one.name, KINDS[one.type], one.domain or "", one.description or "") for one in servers]
    console.show(console.make_table(("NAME", "TYPE", "DOMAIN", ""), rows))
    console.note("\nMore about one: gym info NAME. Start some: gym up NAME [NAME...]")
    return 0

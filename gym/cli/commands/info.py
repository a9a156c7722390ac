"""`gym info NAME`: what a server is, where it lives, which instances its config starts, and how to start it."""

from __future__ import annotations

from typing import Annotated

import typer

from gym.cli.options import AsJson
from gym.cli.pages import info_page


def command(
    name: Annotated[str, typer.Argument(metavar="NAME|IMAGE", help="As `gym list` shows it, or packed.")],
    as_json: AsJson = False,
) -> int:
    """Show what a server is and how to start it, its README, config, row fields and an example row."""
    return info_page.show(name, as_json=as_json)

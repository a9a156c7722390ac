"""`gym info NAME`: what a server is, where it lives, which instances its config starts, and how to start it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gym.cli import console
from gym.cli.live import KINDS
from gym.cli.options import AsJson
from gym.cli.summary import EXAMPLE, relative
from gym.config import CatalogEntry, find_server, search_roots


def command(
    name: Annotated[str, typer.Argument(help="A server's name, as `gym list` shows it.")], as_json: AsJson = False
) -> int:
    """Show what a server is, where it lives and how to start it."""
    entry = find_server(name, search_roots(Path.cwd(), os.environ))
    if as_json:
        console.show_json(entry.model_dump(mode="json"))
        return 0
    for label, value in _facts(entry).items():
        if value:
            console.show(Text.assemble((f"{label:<10} ", "bold"), value))
    return 0


def _facts(entry: CatalogEntry) -> dict[str, str]:
    directory = entry.directory
    readme, example = directory / "README.md", directory / EXAMPLE
    return {
        "name": entry.name,
        "type": KINDS[entry.type],
        "about": entry.description or "",
        "domain": entry.domain or "",
        "licence": entry.licence or "",
        "also": ", ".join(entry.aliases),
        "folder": relative(directory),
        "config": relative(entry.config) if entry.config else "",
        "readme": relative(readme) if readme.is_file() else "",
        "examples": relative(example) if example.is_file() else "",
        "start": _start(entry),
    }


def _start(entry: CatalogEntry) -> str:
    if entry.type == "responses_api_models":
        return f"gym up NAMES --model {entry.name}"
    return f"gym up {entry.name}" if entry.config else ""

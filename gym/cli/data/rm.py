"""`gym data rm ADDRESS`: a file, a version or a whole data set, removed from a registry; it asks first."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.data.registry_words import AddressText, Settings, read_registry_access
from gym.cli.sign_of_life import LIFE
from gym.data.registries import open_registry, parse_address
from gym.errors import UserError

File = Annotated[str, typer.Argument(metavar="FILE", help="Only this file of it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def command(address: AddressText, file: File = "", yes: Yes = False, settings: Settings = None) -> int:
    """Remove a data set, a version or a file from a registry: gym data rm gitlab:NAME:0.0.1."""
    parsed = parse_address(address)
    registry = open_registry(parsed.registry, read_registry_access(settings))
    what = f"{file} of {parsed}" if file else f"{parsed} with all that is in it"
    if not yes and not _confirmed(what):
        console.note("Nothing was removed.")
        return 1
    console.show(f"removed {registry.remove(parsed, file)}")
    return 0


def _confirmed(what: str) -> bool:
    if not sys.stdin.isatty():
        raise UserError(f"Remove {what}? There is no terminal to ask on", "Say it with --yes.")
    with LIFE.hidden():
        return typer.confirm(f"Remove {what}? It cannot be undone", default=False, err=True)

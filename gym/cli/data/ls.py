"""`gym data ls ADDRESS`: what an organisation, a data set or a version in a registry holds."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.data.registry_words import Settings, read_registry_access, size_text
from gym.cli.options import AsJson
from gym.data.registries import open_registry, parse_address

Text = Annotated[
    str,
    typer.Argument(metavar="ADDRESS", help="hf:ORG, hf:ORG/NAME, gitlab:, gitlab:NAME or gitlab:NAME:VERSION."),
]


def command(address: Text, settings: Settings = None, as_json: AsJson = False) -> int:
    """List data sets, versions or files in a registry: gym data ls hf:ORG/NAME."""
    parsed = parse_address(address)
    found = open_registry(parsed.registry, read_registry_access(settings)).entries(parsed)
    if as_json:
        console.show_json([asdict(one) for one in found])
        return 0
    if not found:
        console.note(f"{parsed}: nothing is there.")
        return 0
    rows = [(one.name, size_text(one.size), one.digest[:12], one.note) for one in found]
    console.show(console.make_table(("NAME", "SIZE", "CHECKSUM", ""), rows, right=("SIZE",)))
    return 0

"""`gym migrate`: servers of a NeMo Gym checkout, copied into our layout, and what was changed on the way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gym.cli import console
from gym.cli.migration import Move, carry_out, find_sources, is_there_already, plan_move
from gym.config import list_servers, search_roots


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A server's folder, or a whole checkout.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where `servers` is, or is made.")] = Path(),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
) -> int:
    """Copy servers of a NeMo Gym checkout into ./servers and say what was changed. The source stays as it is."""
    moves = [plan_move(type_, source, to.absolute() / "servers") for type_, source in find_sources(folder)]
    sources = {move.source for move in moves}  # a checkout that we stand in is found too
    servers = list_servers(search_roots(to.absolute(), os.environ))
    known = [one.name for one in servers if one.directory.resolve() not in sources]
    there = {move.name: name for move in moves if (name := is_there_already(move, known))}
    for name, ours in there.items():
        console.note(f"{name}: left out, for there is {ours} here already: gym info {ours}")
    wanted = [move for move in moves if move.name not in there]
    for move in wanted:
        if not dry_run:
            carry_out(move)
        _show(move)
    verb = "would be copied" if dry_run else "copied"
    console.show(f"{len(wanted)} {verb}, {len(there)} left out; nothing in {folder} was touched.")
    if wanted and not dry_run:
        console.show(f"Try it: gym test {wanted[0].name}")
    return int(not wanted)


def _show(move: Move) -> None:
    console.show(Text(move.name, style="bold"))
    for change in move.changes:
        console.show(f"  {change}")
    for note in move.notes:
        console.note(f"  look at {note}", style="yellow")

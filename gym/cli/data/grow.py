"""`gym data grow`: rows made by program, for the environments that can."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.data.common import Seed
from gym.cli.options import AsJson
from gym.cli.server_python import cached_python
from gym.config import CatalogEntry, find_server, list_servers, search_roots
from gym.data.row_generator import Ability, RowRequest, ask_ability, can_grow, check_request, grow_file
from gym.data.whole_files import refuse_other_form
from gym.errors import UserError

AT_ONCE = 2
ALL = 1_000_000_000  # rows: however many there are
Name = Annotated[str, typer.Argument(metavar="NAME", help="An environment that `gym data grow --list` shows.")]
More = Annotated[list[str] | None, typer.Argument(metavar="[-- OPTION...]", help="Options of its own generator.")]
Rows = Annotated[int, typer.Option("--rows", "--count", "-n", metavar="N", min=1, help="How many.")]
Split = Annotated[str, typer.Option("--split", metavar="SPLIT", help="train, validation or test: they share no row.")]
Difficulty = Annotated[str, typer.Option("--difficulty", metavar="D", help="Default: the easiest.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Written whole or not at all.")]
List = Annotated[bool, typer.Option("--list", help="Which environments can, and what.")]


def command(
    name: Name = "",
    more: More = None,
    rows: Rows = 100,
    seed: Seed = 0,
    difficulty: Difficulty = "",
    split: Split = "train",
    output: Output = None,
    list_all: List = False,
    as_json: AsJson = False,
) -> int:
    """Make rows: gym data grow graphwalks --rows 1000 --difficulty hard --split train -o train.jsonl."""
    roots = search_roots(Path.cwd(), os.environ)
    if list_all:
        return _list([find_server(name, roots)] if name else list(list_servers(roots)), as_json=as_json)
    if not name or output is None:
        raise UserError("Which environment, and into which file?", "gym data grow NAME -o FILE; gym data grow --list")
    refuse_other_form(output)
    entry = find_maker(name, roots)
    request = RowRequest(rows, seed, split, difficulty, tuple(more or ()))
    with console.busy(f"{name}: its environment"):
        python = cached_python(entry)
        ability = ask_ability(python, entry.directory)
    check_request(request, ability, name)
    return _write(python, entry, request, ability, output)


def _write(python: Path, entry: CatalogEntry, request: RowRequest, ability: Ability, output: Path) -> int:
    many = "all" if request.rows == ALL else f"{request.rows:,}"
    with console.busy(f"{entry.name}: making {many} rows"):
        number = grow_file(python, entry.directory, request, output)
    kind = f"{request.difficulty or ability.difficulties[0]}, {request.split}"
    console.show(f"{number:,} rows of {entry.name} ({kind}) in {output}; licence: {ability.licence}")
    if number < request.rows and not ability.folders:
        console.note(f"{number:,} of {request.rows:,} rows: {entry.name} has no more ({kind})", style="yellow")
    return int(number < request.rows and not ability.folders)


def find_maker(name: str, roots: tuple[Path, ...]) -> CatalogEntry:
    entry = find_server(name, roots)
    if not can_grow(entry.directory):
        able = ", ".join(one.name for one in list_servers(roots) if can_grow(one.directory))
        raise UserError(f"{name} cannot make rows: it has no generate.py", f"These can: {able}")
    return entry


def _list(entries: list[CatalogEntry], *, as_json: bool) -> int:
    makers = [entry for entry in entries if can_grow(entry.directory)]
    with console.busy("asking every generate.py"), ThreadPoolExecutor(AT_ONCE) as pool:
        abilities = list(pool.map(lambda entry: ask_ability(cached_python(entry), entry.directory), makers))
    able = dict(zip((entry.name for entry in makers), abilities, strict=True))
    if as_json:
        console.show_json({name: asdict(one) for name, one in able.items()})
        return 0
    rows = [(name, ", ".join(one.difficulties), ", ".join(one.splits), one.licence) for name, one in able.items()]
    console.show(console.make_table(("ENVIRONMENT", "DIFFICULTIES", "SPLITS", "LICENCE"), rows))
    return 0

"""`gym rollouts NAME --split SPLIT`: the rows that a server's `datasets:` lists, fetched where they are missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from gym.cli import console
from gym.cli.data.download import describe_received, note_rows
from gym.cli.stack_request import load_named
from gym.config import search_roots
from gym.data.data_sets import Listed, Split, list_data_sets
from gym.data.line_source import read_lines
from gym.data.registries import choose_place, fetch
from gym.data.whole_files import whole_file
from gym.errors import UserError
from gym.wire.server_types import AGENTS


def find_split_rows(
    named: list[str], split: str, agent: str, configs: list[Path] | None = None
) -> tuple[tuple[str, ...], str]:
    """The files, and the agent of rows that name none: the one that lists them, where it is one."""
    splits = get_args(Split)
    if split not in splits:
        raise UserError(f"--split {split}: there is no such split", f"One of {', '.join(splits)}.")
    if not named and not configs:
        raise UserError("--split: of which server?", f"gym rollouts NAME --split {split} -o NAME.jsonl")
    stack = load_named(named, files=configs)
    everything = list_data_sets(stack)
    found = [one for one in everything if one.data.type == split]
    if not found:
        raise _no_split([*named, *map(str, configs or ())], split, everything)
    files = tuple(dict.fromkeys(str(_find_file(one, stack.settings)) for one in found))
    agents = {one.instance.name for one in found if one.instance.type == AGENTS}
    return files, agent or (agents.pop() if len(agents) == 1 else "")


def _no_split(named: list[str], split: str, everything: tuple[Listed, ...]) -> UserError:
    have = ", ".join(sorted({one.data.type for one in everything}))
    what = f"it has {have}" if have else "it lists none at all"
    return UserError(
        f"{' '.join(named)}: no data set of type {split} is listed; {what}",
        "Add one to `datasets` in its configuration, or name a file: gym rollouts ROWS.jsonl -o OUT.jsonl",
    )


def _find_file(listed: Listed, settings: dict[str, object]) -> Path:
    roots, data = search_roots(Path.cwd(), os.environ), listed.data
    licence = data.license or "no licence given"
    path = listed.file(roots)
    if path is None:
        place = choose_place(listed, roots, Path.cwd())
        with console.busy(f"Fetching {data.name} for {listed.instance.name}"):
            got = fetch(listed, place, settings)
        path = got.path
        note_rows(got)
        console.note(f"{listed.instance.name}: {data.type} rows, {licence}: {describe_received(got)}")
    else:
        console.note(f"{listed.instance.name}: {data.type} rows, {licence}: {path}")
    if data.num_repeats > 1:
        console.note(f"The data set says num_repeats: {data.num_repeats}; here that is --repeats {data.num_repeats}.")
    return _slice(path, data.start_idx, data.end_idx) if data.start_idx or data.end_idx is not None else path


def _slice(path: Path, start: int | None, end: int | None) -> Path:
    """Only the rows that the data set is; the same file each time, as a resumed collection asks."""
    begin = start or 0
    place = Path("data") / f"{path.stem}.{begin}-{'' if end is None else end}.jsonl"
    with whole_file(place) as out:
        for raw in _rows_between(path, begin, end):
            out.write(raw + b"\n")
    return place


def _rows_between(path: Path, begin: int, end: int | None) -> Iterator[bytes]:
    for index, line in enumerate(read_lines([str(path)])):
        if end is not None and index >= end:
            return
        if index >= begin:
            yield line.raw

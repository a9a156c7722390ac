"""What `gym data` commands are given: files of rows, configuration files, names of servers and overrides, mixed."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gym.cli.options import split_items
from gym.cli.server_python import cached_python
from gym.cli.stack_request import load_named
from gym.config import StackConfig, list_servers, search_roots
from gym.data.data_sets import list_data_sets
from gym.data.line_source import expand_inputs
from gym.data.row_servers import RowServers, agent_for
from gym.data.validation import Input
from gym.errors import UserError

CONFIGS = (".yaml", ".yml")
NAME = re.compile(r"[A-Za-z_][\w-]*")


class DataArguments(NamedTuple):
    """What was typed, sorted out."""

    rows: tuple[str, ...]
    names: list[str]  # of servers, and overrides
    configs: list[Path]


def sort_out(items: Sequence[str]) -> DataArguments:
    """A bare word is a server's name; whatever has a dot, a slash or a star in it is a file."""
    rows, names, configs = [], [], []
    overrides = split_items(list(items))[1]
    for item in items:
        if item.endswith(CONFIGS):
            configs.append(Path(item))
        elif (NAME.fullmatch(item) or item in overrides) and not Path(item).is_file():
            names.append(item)
        else:
            rows.append(item)
    return DataArguments(tuple(rows), names, configs)


def find_stack(given: DataArguments) -> StackConfig | None:
    """None where only files of rows are named."""
    return _load(given.names, given.configs) if given.names or given.configs else None


def find_inputs(given: DataArguments, stack: StackConfig | None) -> tuple[tuple[Input, ...], tuple[str, ...]]:
    """The files of rows that were named, else those of the data sets that servers list; and those not here."""
    if given.rows:
        return tuple(Input(file) for file in dict.fromkeys(expand_inputs(given.rows))), ()
    if stack is None:
        raise UserError("Which rows?", "Name files, or a server for its data sets: gym data validate mcqa")
    found, missing = _data_sets(stack)
    if not found:
        names = f": {', '.join(missing)}" if missing else ""
        raise UserError(
            f"No data set of these servers is here{names}", "`gym data sets NAMES` shows where each is from"
        )
    return found, missing


def row_servers(stack: StackConfig | None) -> RowServers:
    """Their environments are made when the first row wants one."""
    if stack is not None:
        return RowServers(cached_python, stack)
    roots = search_roots(Path.cwd(), os.environ)
    return RowServers(cached_python, entries=list_servers(roots), load=lambda name: _load([name], []))


def _load(names: list[str], configs: list[Path]) -> StackConfig:
    """Without models: a server's judge has nothing to do with its rows."""
    return load_named(names, files=configs, without_models=True)


def _data_sets(stack: StackConfig) -> tuple[tuple[Input, ...], tuple[str, ...]]:
    roots = search_roots(Path.cwd(), os.environ)
    found: dict[Input, None] = {}
    missing = []
    for listed in list_data_sets(stack):
        path = listed.file(roots)
        if path is None:
            missing.append(listed.data.jsonl_fpath)
        else:
            found[Input(_shown(path), agent_for(stack, listed.instance))] = None
    return tuple(found), tuple(dict.fromkeys(missing))


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)

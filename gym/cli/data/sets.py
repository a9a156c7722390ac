"""`gym data sets`: which data sets the named servers list, where they are, and which registries have them."""

from __future__ import annotations

import os
from pathlib import Path

from gym.cli import console
from gym.cli.options import AsJson, ConfigFiles, Items
from gym.cli.stack_request import load_named
from gym.config import search_roots
from gym.data.data_sets import Listed, list_data_sets


def command(
    items: Items = None,
    files: ConfigFiles = None,
    as_json: AsJson = False,
) -> int:
    """Show the data sets that servers list."""
    roots = search_roots(Path.cwd(), os.environ)
    found = list_data_sets(load_named(items, files=files, without_models=True))
    if as_json:
        console.show_json([{**one.data.model_dump(), "instance": one.instance.name} for one in found])
        return 0
    columns = ("INSTANCE", "NAME", "TYPE", "LICENCE", "FILE")
    console.show(console.make_table(columns, [_line(one, one.file(roots)) for one in found]))
    return 0


def _line(one: Listed, file: Path | None) -> tuple[str, ...]:
    where = one.data.jsonl_fpath if file else f"{one.data.jsonl_fpath} (not here)"
    return one.instance.name, one.data.name, one.data.type, one.data.license or "", where

"""What `gym rollouts` may be given besides a file: a server's name stands for its example rows."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from gym.cli.named_images import find_entry, names_image
from gym.config import path_variants, search_roots
from gym.config.assets import split_folder
from gym.config.catalog import find_configs, server_folders
from gym.config.example_rows import example_of
from gym.errors import UserError
from gym.wire.json_text import read_exact_json


def find_rows(
    named: list[str], rows: list[str], agent: str, split: str = "", configs: list[Path] | None = None
) -> tuple[tuple[str, ...], str]:
    """`gym rollouts ROWS...` or `gym rollouts AGENT --input ROWS`: the files, and the agent of rows that name none."""
    if split and rows:
        raise UserError("--split names the rows of a server, and --input names files.", "Leave one of them out.")
    if configs and not split:
        raise UserError("-c names configurations whose data sets --split chooses from.", "Add --split train.")
    if split:
        from gym.cli.split_rows import find_split_rows  # here: 0.2 s that a file's rows need not wait for

        return find_split_rows(named, split, agent, configs)
    if not rows and not named:
        raise UserError(
            "Which rows?", "Name a JSONL file, or a server for its examples: gym rollouts mcqa -o mcqa.jsonl"
        )
    agents = {one for one in (agent, *(named if rows else [])) if one}
    if len(agents) > 1:
        raise UserError(
            f"{' and '.join(sorted(agents))}: with --input the argument is the one agent of rows that name none.",
            "Give more rows with another --input.",
        )
    return tuple(path for one in rows or named for path in _find_inputs(one)), next(iter(agents), "")


def _find_inputs(given: str) -> tuple[str, ...]:
    """A file of that name wins over a server's; a path of NeMo Gym's tree is found where the server is here."""
    is_name = re.fullmatch(r"[A-Za-z_][\w-]*", given) or names_image(given) or split_folder(given, Path.cwd())[1]
    if Path(given).is_file() or not is_name:
        return (_find_file(given),)
    try:
        entry = find_entry(given)
    except UserError:
        if names_image(given) or not find_configs(given, server_folders(search_roots(Path.cwd(), os.environ))):
            raise
        from gym.cli.split_rows import find_split_rows  # as above: a configuration that has a name of its own

        return find_split_rows([given], "example", "")[0]
    example = example_of(entry.directory)
    if not example.is_file():
        raise UserError(
            f"{given}: that server has no example rows ({example} is not there).",
            f"Give a JSONL file: gym rollouts ROWS.jsonl -o {entry.name}.jsonl",
        )
    return (str(example),)


def _find_file(given: str) -> str:
    variants = [] if Path(given).is_file() else path_variants(given)[1:]
    found = (root / one for root in search_roots(Path.cwd(), os.environ) for one in variants)
    return str(next((path for path in found if path.is_file()), given))


def parse_params(text: str) -> dict[str, Any]:
    try:
        params = read_exact_json(text)
    except ValueError as error:
        raise UserError(f"--params is not JSON: {error}", """--params '{"temperature": 1}'""") from None
    if not isinstance(params, dict):
        raise UserError("--params is a JSON object.", """--params '{"temperature": 1}'""")
    if wrong := {"input", "tools"} & params.keys():
        raise UserError(f"--params would give every row the same {min(wrong)}.", "Write that into the rows.")
    return params


def parse_shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found:
        raise UserError(f"--shard {text}: expected I/N, the part and how many there are, e.g. 2/8.")
    return int(found[1]), int(found[2])

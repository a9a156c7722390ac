"""`gym data from`: rows of a library's tasks, made by the environment that has it, or of a table on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.data import grow
from gym.cli.data.common import Seed
from gym.cli.server_python import cached_python
from gym.config import search_roots
from gym.data.line_source import expand_inputs, read_lines
from gym.data.row_generator import ask_ability
from gym.data.row_parsing import PARAMS, parse_object
from gym.data.table_files import is_table_name, tables_to_rows
from gym.data.whole_files import refuse_inputs, refuse_other_form
from gym.errors import GymError, UserError

Library = Annotated[
    str, typer.Argument(metavar="LIB|FILE", help="The environment that has the library: `gymnasium`; or a file.")
]
Tasks = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TASK...]", help="Of these tasks alone; of `harbor`, folders; more files."),
]
Rows = Annotated[
    int | None, typer.Option("--rows", "--count", "-n", metavar="N", min=1, help="Default: 100, or all folders.")
]
ListTasks = Annotated[bool, typer.Option("--list", help="Which tasks the library has.")]


def command(
    library: Library,
    tasks: Tasks = None,
    rows: Rows = None,
    seed: Seed = 0,
    difficulty: grow.Difficulty = "",
    split: grow.Split = "train",
    output: grow.Output = None,
    list_tasks: ListTasks = False,
) -> int:
    """Make rows of a library's tasks, or of a file of parquet, arrow, CSV or a JSON list.

    gym data from gymnasium FrozenLake-v1 Taxi-v4 --rows 500 -o games.jsonl; gym data from train.parquet -o rows.jsonl
    """
    if output is not None:
        refuse_other_form(output)
    if _names_file(library):
        if rows or seed or difficulty or split != "train" or list_tasks:
            raise UserError("Of a file all rows are made", f"gym data from {library} -o FILE; then gym data sample")
        return _of_tables([library, *(tasks or [])], output)
    entry = grow.find_maker(library, search_roots(Path.cwd(), os.environ))
    with console.busy(f"{library}: its environment"):
        ability = ask_ability(cached_python(entry), entry.directory)
    if list_tasks and not ability.folders:
        console.show("\n".join(ability.tasks) or f"{library} has one task")
        return 0
    if ability.folders:
        return _of_folders(library, tasks or [], rows, split, difficulty, output)
    wanted, own = split_words(tasks or [])
    if unknown := [one for one in wanted if one not in ability.tasks]:
        raise UserError(f"{library} has no task {unknown[0]!r}", f"gym data from {library} --list")
    if output is None:
        raise UserError("Into which file?", f"gym data from {library} ... -o FILE")
    more = [word for one in wanted for word in ("--task", one)]
    return grow.command(library, more + own, rows or 100, seed, difficulty, split, output)


def _names_file(word: str) -> bool:
    """A file without an ending may have the name of a library: the library's is meant, and ./NAME is the file."""
    if is_table_name(word) or not Path(word).is_file():
        return is_table_name(word)
    if Path(word).name != word or not _names_library(word):
        return True
    console.note(f"{word} is the library; the file of that name here: gym data from ./{word}")
    return False


def _names_library(name: str) -> bool:
    try:
        grow.find_maker(name, search_roots(Path.cwd(), os.environ))
    except GymError:
        return False
    return True


def _of_tables(words: list[str], output: Path | None) -> int:
    """Rows as the files have them; what their columns mean only the user knows."""
    if output is None:
        raise UserError("Into which file?", f"gym data from {' '.join(words)} -o FILE")
    files = expand_inputs(words)
    refuse_inputs([output], files)
    with console.busy(f"reading {', '.join(files)}"):
        written = tables_to_rows(files, output)
    if written.not_finite:
        what = f"numbers that are NaN or infinite, which JSON does not have, are null: {written.not_finite:,}"
        console.note(f"{output}: {what}", style="yellow")
    console.show(f"{written.rows:,} rows of {', '.join(files)} in {output}")
    first = next(iter(read_lines([str(output)])))
    if PARAMS not in parse_object(first):
        console.note(f"They have no {PARAMS} yet: gym data render {output} --prompt prompt.yaml -o FILE")
    return 0


def split_words(words: list[str]) -> tuple[list[str], list[str]]:
    """Tasks, and from the first word that begins with -- on the options of its own generator."""
    first = next((number for number, one in enumerate(words) if one.startswith("--")), len(words))
    return words[:first], words[first:]


def _of_folders(
    library: str, words: list[str], rows: int | None, split: str, difficulty: str, output: Path | None
) -> int:
    """Words that begin with -- are options of its own generator."""
    folders = [Path(one) for one in words if not one.startswith("--")]
    if missing := [one for one in folders if not one.is_dir()]:
        raise UserError(f"{missing[0]} is not a folder", f"gym data from {library} FOLDER... -o FILE")
    if output is None or not folders:
        raise UserError("Of which folders, and into which file?", f"gym data from {library} FOLDER... -o FILE")
    more = [word for one in folders for word in ("--task", str(one.absolute()))]
    more += [one for one in words if one.startswith("--")]
    return grow.command(library, more, rows or grow.ALL, 0, difficulty, split, output)

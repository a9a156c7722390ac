"""Rows made by an environment's own `generate.py`, in the environment's own interpreter: as many as it can make."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from gym.data.line_source import Line
from gym.data.row_parsing import BadLine, parse_row
from gym.data.whole_files import whole_file
from gym.errors import InfraError, UserError
from gym.programs import run_program, stream_program
from gym.server.generating import NO_MORE
from gym.venvs import bytecode_elsewhere

GENERATOR: Final = "generate.py"
SECONDS: Final = 600.0  # to say what it can make; only a program that hangs takes so long


@dataclass(frozen=True, slots=True)
class Ability:
    """What an environment can make rows of."""

    licence: str
    difficulties: tuple[str, ...]  # the easiest first
    splits: tuple[str, ...]
    tasks: tuple[str, ...] = ()  # the names of what it has, where it has several things
    folders: bool = False  # its tasks are folders, which it is given


@dataclass(frozen=True, slots=True)
class RowRequest:
    """Which rows are wanted."""

    rows: int
    seed: int = 0
    split: str = "train"
    difficulty: str = ""  # the easiest
    more: tuple[str, ...] = field(default=())  # options that only this environment's generator has


def can_grow(folder: Path) -> bool:
    return (folder / GENERATOR).is_file()


def ask_ability(python: Path, folder: Path) -> Ability:
    argv = (str(python), GENERATOR, "--describe")
    output = run_program(argv, cwd=folder, env=_environment(), timeout=SECONDS)
    try:
        return TypeAdapter(Ability).validate_json(output)
    except ValidationError as error:
        what = f"{folder / GENERATOR} --describe does not say what it can make: {error.errors()[0]['msg']}"
        raise InfraError(what, "it ends with: raise SystemExit(main(generator)), of gym.server.generating") from None


def check_request(request: RowRequest, ability: Ability, name: str) -> None:
    if request.difficulty and request.difficulty not in ability.difficulties:
        what = f"{name} has no difficulty {request.difficulty!r}"
        raise UserError(what, f"one of: {', '.join(ability.difficulties)}")
    if request.split not in ability.splits:
        raise UserError(f"{name} has no split {request.split!r}", f"one of: {', '.join(ability.splits)}")


def grow_file(python: Path, folder: Path, request: RowRequest, output: Path) -> int:
    """How many rows went to `output`, each checked: fewer than were wanted where there are no more of them."""
    rows = 0
    with whole_file(output) as file, closing(grow_rows(python, folder, request)) as made:
        for line in made:
            file.write(line + b"\n")
            rows += 1
        if not rows:
            raise UserError(f"{folder.name}: no row was made", "ask for another split or difficulty")
    return rows


def grow_rows(python: Path, folder: Path, request: RowRequest) -> Generator[bytes, None, None]:
    """The rows as lines, until so many are made or there are no more. Closing it ends the program that makes them."""
    with closing(stream_program(_argv(python, request), cwd=folder, env=_environment(), fine=(0, NO_MORE))) as lines:
        for number, raw in enumerate(lines, 1):
            try:
                parse_row(Line(raw.strip(), f"what {folder / GENERATOR} wrote", number))
            except BadLine as bad:
                raise InfraError(str(bad.problem), f"this is a mistake in {folder / GENERATOR}") from None
            yield raw.strip()


def _argv(python: Path, request: RowRequest) -> Sequence[str]:
    asked = {
        "--count": request.rows,
        "--seed": request.seed,
        "--split": request.split,
        "--difficulty": request.difficulty,
    }
    options = [word for name, value in asked.items() if value != "" for word in (name, str(value))]
    return (str(python), GENERATOR, *options, *request.more)


def _environment() -> dict[str, str]:
    return {**os.environ, **bytecode_elsewhere(os.environ)}

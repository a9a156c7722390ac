"""Is a server whole, and do its own tests pass in its own environment?"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from gym.cli.summary import EXAMPLE
from gym.config import CatalogEntry
from gym.errors import GymError, ProgramFailed
from gym.runtime.programs import run_program
from gym.wire.rows import Row

EXAMPLE_ROWS = 5
TEST_SECONDS = 600.0
OPTIONS = ("-q", "--import-mode=importlib", "-p", "no:cacheprovider")
# Tests mean the same wherever a server's folder lies: settings of a folder above it do not apply, its own do.
SETTINGS = ("pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
NO_SETTINGS = ("-c", os.devnull, "-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function")


class Report(NamedTuple):
    name: str
    problems: tuple[str, ...]  # what its folder lacks
    tests: str  # pytest's own last line
    output: str  # all that pytest said, when tests failed
    seconds: float

    @property
    def passed(self) -> bool:
        return not self.problems and not self.output


def test_server(entry: CatalogEntry, find_pytest: Callable[[CatalogEntry], Sequence[str]]) -> Report:
    """One server's folder and tests; `find_pytest` gives the command, and may make an environment for it."""
    began = time.monotonic()
    tests, output = _run_tests(entry, find_pytest)
    return Report(entry.name, tuple(find_gaps(entry)), tests, output, time.monotonic() - began)


def find_gaps(entry: CatalogEntry) -> Iterator[str]:
    """What every server has and this one has not."""
    for name in ("README.md", "tests", "app.py"):
        if not (entry.directory / name).exists():
            yield f"no {name}"
    if entry.config is None:
        yield "no file in configs/"
    example = entry.directory / EXAMPLE
    if example.is_file():
        yield from _row_problems(example)
    elif entry.type == "resources_servers":
        yield f"no {EXAMPLE} with {EXAMPLE_ROWS} rows"


def _row_problems(example: Path) -> Iterator[str]:
    lines = [line for line in example.read_bytes().splitlines() if line.strip()]
    if len(lines) != EXAMPLE_ROWS:
        yield f"{EXAMPLE}: {len(lines)} rows, {EXAMPLE_ROWS} are asked for"
    for number, line in enumerate(lines, 1):
        try:
            Row.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            yield f"{EXAMPLE}:{number}: {where + ': ' if where else ''}{first['msg']}"


def _run_tests(entry: CatalogEntry, find_pytest: Callable[[CatalogEntry], Sequence[str]]) -> tuple[str, str]:
    folder = entry.directory
    if not (folder / "tests").is_dir():
        return "no tests", ""
    own = any((folder / name).is_file() for name in SETTINGS)
    options = (*OPTIONS, *(() if own else NO_SETTINGS), f"--rootdir={folder}", "tests")
    try:
        with tempfile.TemporaryDirectory() as scratch:  # tests leave nothing in the server's folder
            env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_STORAGE_DIRECTORY": scratch}
            argv = (*find_pytest(entry), *options)
            return _last_line(run_program(argv, cwd=folder, env=env, timeout=TEST_SECONDS)), ""
    except ProgramFailed as error:
        return _last_line(error.output), error.output
    except GymError as error:
        return "could not run", str(error)


def _last_line(output: str) -> str:
    """`3 passed`, without the rule of signs around it and the seconds, which the table has."""
    lines = [line.strip("= ") for line in output.splitlines() if re.search(r"\d+ (passed|failed|error|skipped)", line)]
    return lines[-1].partition(" in ")[0] if lines else "no result"

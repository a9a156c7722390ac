"""Checks that a file's rows can be read: a bad line is found before the upload, not after a download."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gym.data.line_source import read_lines
from gym.data.registries.splits import LINES
from gym.data.registries.transfer import file_digest
from gym.data.row_parsing import BadLine, parse_row
from gym.errors import ConfigError, Problem, UserError

MAX_SHOWN: Final = 20


def check_upload(source: Path) -> tuple[int, str]:
    """Size and sha256 of a file that may be uploaded; of JSON lines every one is a row."""
    if not source.is_file():
        raise UserError(f"there is no file {source}", f"look: ls {source.parent}")
    if source.name.endswith(LINES):
        _check_rows(source)
    return source.stat().st_size, file_digest(source)


def _check_rows(source: Path) -> None:
    problems: list[Problem] = []
    count = bad = 0
    for line in read_lines([str(source)]):
        count += 1
        try:
            parse_row(line)
        except BadLine as error:
            bad += 1
            if bad <= MAX_SHOWN:
                problems.append(error.problem)
    if not count:
        raise UserError(f"{source} has no rows")
    if problems:
        raise ConfigError(problems, f"{bad:,} of {count:,} lines are not rows; nothing was uploaded.")

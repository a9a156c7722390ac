"""Checks that a file's rows can be read: a bad line is found before the upload, not after a download."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gym.data.file_kinds import ALL, UNPACKED, named_kind
from gym.data.line_source import read_lines
from gym.data.registries.splits import LINES
from gym.data.registries.transfer import file_digest
from gym.data.row_parsing import BadLine, parse_row
from gym.errors import ConfigError, Problem, UserError

MAX_SHOWN: Final = 20


def check_upload(source: Path, name: str) -> tuple[int, str]:
    """Size and sha256 of a file that may be uploaded under that name; of JSON lines every one is a row."""
    if not source.is_file():
        raise UserError(f"there is no file {source}", f"look: ls {source.parent}")
    has, gets = named_kind(source.name, ALL), named_kind(name, ALL)
    if has is not gets:
        suffix = has.suffixes[0] if has else ".jsonl"
        raise UserError(
            f"{source} would have the name {name} there, which says another kind of file", f"end in {suffix}"
        )
    if source.name.endswith(LINES) or name.endswith(LINES):
        _check_rows(source)
    return source.stat().st_size, file_digest(source)


def name_of_split(split: str, source: Path) -> str:
    """`train.jsonl`, or as `source` is packed."""
    kind = named_kind(source.name, ALL)
    if kind is None:
        return f"{split}.jsonl"
    return f"{split}{'.jsonl' if kind in UNPACKED else ''}{kind.suffixes[0]}"


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

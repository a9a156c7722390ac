"""Checks lines against the contract: each comes back parsed, or with its problems. Nothing else is collated.

`check_lines` is for lines at hand, `check_files` for files of any size: it bounds what a line may take.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import orjson

from gym.config.aliases import known_as
from gym.data.contract import check_contract, is_plain, sample_of
from gym.data.duplicates import find_duplicate_keys
from gym.data.line_blocks import read_blocks
from gym.data.line_source import Line
from gym.data.row_parsing import AGENT_REF, BadLine, parse_object
from gym.errors import Problem
from gym.wire.deep_values import TOO_DEEP

MAX_LINE: Final = 64 << 20  # bytes


@dataclass(frozen=True)
class LineRules:
    """What lines are checked for beside the contract."""

    agents: tuple[str, ...] | None = None  # that a row may name; None: any
    agent: str = ""  # of rows that name none; "": of `agents` the only one
    max_line: int = MAX_LINE


class Checked(NamedTuple):
    """One line. `row` is there exactly when nothing was found."""

    line: Line
    row: dict[str, Any] | None
    problems: tuple[Problem, ...] = ()


def check_lines(lines: Iterable[Line], rules: LineRules = LineRules()) -> Iterator[Checked]:
    """Every line in its order, each looked at by itself; a bad one stops nothing."""
    for line in lines:
        yield check_line(line, rules)


def check_files(files: Iterable[str], rules: LineRules = LineRules()) -> Iterator[Checked]:
    """Every line of files of any size; what cannot be read is a problem of a line without bytes."""
    for block in read_blocks(files, rules.max_line):
        if block.problem is not None:
            yield Checked(Line(b"", block.file, block.first), None, (block.problem,))
        yield from check_lines(block.lines(), rules)


def check_line(line: Line, rules: LineRules) -> Checked:
    if len(line.raw) > rules.max_line:
        return Checked(line._replace(raw=b""), None, (too_long(line.file, line.number, rules.max_line),))
    try:
        row = parse_object(line)
    except BadLine as bad:
        return Checked(line, None, (bad.problem,))
    clean = _is_clean(line.raw, row)
    if clean and is_plain(row) and (rules.agents is None or agent_of(row, rules)):
        return Checked(line, row)  # nearly all lines, in half the time
    problems = [*(() if clean else _check_text(line.raw, row)), *check_contract(row), *_check_agent(row, rules)]
    if not problems:
        return Checked(line, row)
    return Checked(line, None, tuple(replace(one, file=line.file, line=line.number) for one in problems))


def agent_of(row: dict[str, Any], rules: LineRules) -> str:
    """The row's agent, under its name in `rules.agents`; "" where neither the row nor the rules name one."""
    ref = row.get(AGENT_REF)
    name = ref.get("name") if isinstance(ref, dict) else None
    if not isinstance(name, str) or not name:
        return rules.agent or (rules.agents[0] if rules.agents and len(rules.agents) == 1 else "")
    return name if rules.agents is None else known_as(name, rules.agents) or ""


def too_long(file: str, number: int, max_line: int) -> Problem:
    hint = "split the row, or: --max-line BYTES"
    return Problem(f"the line is longer than {max_line:,} bytes", file=file, line=number, hint=hint)


def _is_clean(raw: bytes, row: dict[str, Any]) -> bool:
    """No key was lost: it would have taken its two quotes along. False where a text has quotes as \\u0022."""
    try:
        written = orjson.dumps(row)
    except TypeError:
        return False
    return raw.count(b'"') == written.count(b'"') and b"\\u0022" not in raw


def _check_text(raw: bytes, row: dict[str, Any]) -> Iterator[Problem]:
    """What parsing does not find: a key that is there twice, and nesting that no writer follows."""
    try:
        orjson.dumps(row)
    except TypeError:
        yield Problem(TOO_DEEP, hint="no server could pass it on: make the row flatter")
        return
    for path in find_duplicate_keys(raw):
        yield Problem("is there twice in one object", key=path, hint="keep one: readers differ in which they take")


def _check_agent(row: dict[str, Any], rules: LineRules) -> Iterator[Problem]:
    if rules.agents is None:
        return
    if agent_of(row, rules):
        return
    ref = row.get(AGENT_REF)
    if ref is None:
        hint = f"add it; there are {', '.join(rules.agents) or 'none'}"
        yield Problem("is missing, and there are several agents", key=AGENT_REF, hint=hint)
    elif isinstance(ref, dict) and isinstance(name := ref.get("name"), str) and name:
        near = difflib.get_close_matches(name, rules.agents, n=1) or rules.agents[:5]
        hint = f"did you mean {' or '.join(near)}?" if near else "none of the configurations has an agent"
        yield Problem(
            "is not an agent of these configurations", key=f"{AGENT_REF}.name", hint=hint, value=sample_of(name)
        )

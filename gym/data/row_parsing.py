"""A line of a data set as a row: what is wrong with it, where, and what to write instead."""

from __future__ import annotations

import difflib
from typing import Any

import orjson

from gym.data.line_source import Line
from gym.errors import ConfigError, Problem
from gym.wire.json_text import HALF_ESCAPE
from gym.wire.policy_endpoint import KEY

AGENT_REF = "agent_ref"
PARAMS = "responses_create_params"


class BadLine(ValueError):
    """A line that is not a row, with the finding."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def parse_row(line: Line) -> dict[str, Any]:
    """The line as a row; `BadLine` says what is wrong with it and what to write instead."""
    row = parse_object(line)
    if PARAMS not in row:
        near = difflib.get_close_matches(PARAMS, row, n=1)
        hint = f"did you mean {PARAMS} where you wrote {near[0]}?" if near else f'add "{PARAMS}": {{"input": [...]}}'
        raise bad_line(line, "is missing", key=PARAMS, hint=hint)
    if not isinstance(row[PARAMS], dict):
        raise bad_line(line, f"is {kind_of(row[PARAMS])}, not an object", key=PARAMS, hint='write {"input": [...]}')
    return row


def need_row(line: Line) -> dict[str, Any]:
    """For who can do nothing with a bad line but end."""
    try:
        return parse_row(line)
    except BadLine as bad:
        raise ConfigError([bad.problem]) from None


def parse_object(line: Line) -> dict[str, Any]:
    """The line as a JSON object, whatever is in it."""
    try:
        row = orjson.loads(line.raw)
    except orjson.JSONDecodeError as error:
        raise bad_line(line, f"not JSON: {error}", hint=_json_hint(line.raw, error)) from None
    if not isinstance(row, dict):
        raise bad_line(
            line, f"a row is an object, this is {kind_of(row)}", hint='write {"responses_create_params": {...}}'
        )
    return row


def bad_line(line: Line, what: str, *, key: str = "", hint: str = "") -> BadLine:
    return BadLine(Problem(what, file=line.file, line=line.number, key=key, hint=hint))


def kind_of(value: object) -> str:
    names = {"str": "a string", "list": "a list", "NoneType": "null", "bool": "true or false", "dict": "an object"}
    return names.get(type(value).__name__, "a number")


def no_number_hint(raw: bytes, place: int) -> str:
    """What to do where no JSON goes on at `place`, because some program's word for no number stands there."""
    for word in (b"NaN", b"Infinity"):
        if word in raw and raw.decode(errors="replace")[place:].startswith(word.decode()):
            return f"{word.decode()} is not JSON: write null, or leave the field out"
    return ""


def _json_hint(raw: bytes, error: orjson.JSONDecodeError) -> str:
    if hint := no_number_hint(raw, error.pos):
        return hint
    if "surrogate" in str(error) and HALF_ESCAPE.search(raw):
        return "half of a surrogate pair, as \\ud800 alone, is not a character: write \\ufffd in its place"
    if KEY.encode() in raw:
        return "the line holds a key and is not shown; a data set has one JSON object on each line"
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"byte {error.start + 1} of the line is not UTF-8: convert the file, as in iconv -t utf-8"
    return f"the line begins with {raw[:60].decode()!r}; a data set has one JSON object on each line"

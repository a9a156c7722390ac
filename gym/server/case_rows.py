"""A verifier case that says `"row": 0` instead of repeating that row of the example data beside it."""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import orjson

from gym.errors import UserError

EXAMPLES = "example.jsonl"
NOT_ASKED = frozenset({"agent_ref"})  # which agent takes a row is nothing to its verifier


class BadExamples(UserError):
    """A line of the example data is not a row."""


def numbered_lines(path: Path) -> list[tuple[int, bytes]]:
    """Those that are not blank, without the mark that some editors write at the beginning of a file."""
    lines = path.read_bytes().removeprefix(BOM_UTF8).splitlines()
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """What a JSONL file holds: example rows, cases."""
    return [_read_line(f"{path}:{number}", line) for number, line in numbered_lines(path)]


def _read_line(where: str, line: bytes) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadExamples(f"{where}: not JSON: {error}", "a row is one JSON object a line") from None
    if not isinstance(row, dict):
        raise BadExamples(f"{where}: a row is an object, this is {line[:60].decode(errors='replace')}")
    return row


class ExampleRows:
    """The rows beside a file of cases, read when the first case names one."""

    def __init__(self, cases: Path) -> None:
        self._path = cases.with_name(EXAMPLES)
        self._rows: list[dict[str, Any]] | None = None

    def fill(self, case: Any, where: str) -> Any:
        """The case with its row in its request; what the request says itself stands."""
        if not isinstance(case, dict) or "row" not in case:
            return case
        row, request = self._row(case["row"], where), case.get("request", {})
        rest = {key: value for key, value in case.items() if key != "row"}
        return {**rest, "request": {**row, **request} if isinstance(request, dict) else request}

    def index_of(self, row: dict[str, Any]) -> int | None:
        """Where such a row stands; None where it does not."""
        asked = _without_agent(row)
        return next((number for number, one in enumerate(self.read()) if _without_agent(one) == asked), None)

    def read(self) -> list[dict[str, Any]]:
        if self._rows is None:
            try:
                self._rows = read_lines(self._path)
            except FileNotFoundError:
                self._rows = []
            except OSError as error:
                raise UserError(f"{self._path} cannot be read: {error}") from None
        return self._rows

    def _row(self, number: Any, where: str) -> dict[str, Any]:
        rows = self.read()
        if type(number) is not int or not 0 <= number < len(rows):
            there = f"rows 0 to {len(rows) - 1}" if rows else "no row"
            raise UserError(f"{where}: row: {number!r}, and {self._path.name} has {there}", "rows count from 0")
        return _without_agent(rows[number])


def _without_agent(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key not in NOT_ASKED}

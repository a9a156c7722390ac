"""The shipped rows are what the script makes of the tasks' folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from app import Swe, SweConfig
from make_cases import make_cases
from make_rows import shipped_rows

from gym.sandbox.editing import EditError, cut, number_lines
from gym.server.config import Settings

DATA = Path(__file__).parents[1] / "data"
SWE_TOOLS = Path(__file__).parents[3] / "agents" / "swe_tools"


def test_the_example_rows_are_up_to_date() -> None:
    assert [json.loads(line) for line in (DATA / "example.jsonl").read_text().splitlines()] == list(shipped_rows())


def test_the_cases_are_up_to_date() -> None:
    rows = {row["repo"].partition("/")[2]: row for row in shipped_rows()}
    assert [json.loads(line) for line in (DATA / "verifier_cases.jsonl").read_text().splitlines()] == make_cases(rows)


def test_the_rows_tools_are_the_servers() -> None:
    server = Swe(SweConfig(), Settings())
    assert json.loads((DATA / "tools.json").read_text()) == [
        server.tools[name].schema() for name in ("bash", "view", "edit")
    ]


def test_the_tools_of_swe_tools_are_the_servers() -> None:
    server = Swe(SweConfig(), Settings())
    schemas = json.loads((SWE_TOOLS / "tools.json").read_text())
    assert schemas == [server.tools[one["name"]].schema() for one in schemas]


def test_lines_are_numbered_and_a_range_is_kept() -> None:
    assert number_lines("a\nb\nc\n", [2, -1]) == "     2\tb\n     3\tc"
    for bad in ([0, 1], [4, 5], [2, 1], [1]):
        with pytest.raises(EditError):
            number_lines("a\nb\nc\n", bad)


def test_a_cut_says_how_much_is_missing() -> None:
    assert cut("x" * 10, 10) == "x" * 10
    assert "90 characters are left out" in cut("x" * 100, 10)

"""docs/security.md: each threat names the tests that show what comes of it, and each of these tests exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/security.md"
REFERENCE = re.compile(r"`(?P<file>[\w/]+\.py)?::(?P<test>test_\w+)`")
FEWEST = 45  # lines of the tables; fewer would mean that they are not read


class Threat(NamedTuple):
    line: int
    words: str
    tests: tuple[tuple[str, str], ...]  # (file, test)


def threats(text: str) -> Iterator[Threat]:
    for number, line in enumerate(text.splitlines(), 1):
        cells = [one.strip() for one in line.strip("|").split(" | ")]
        if not line.startswith("| ") or len(cells) != 2 or cells[1].rstrip(" |") == "Tests":
            continue
        file, found = "", []
        for one in REFERENCE.finditer(cells[1]):
            file = one["file"] or file
            found.append((file, one["test"]))
        yield Threat(number, cells[0], tuple(found))


def section(text: str) -> str:
    return text.partition("## Threats")[2].partition("\n## ")[0]


LISTED = list(threats(section(PAGE.read_text("utf-8"))))


@cache
def known_tests() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in (*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "servers").glob("*/*/tests/test_*.py")):
        names = re.findall(r"(?m)^\s*(?:async )?def (test_\w+)", path.read_text("utf-8"))
        found.setdefault(path.name, set()).update(names)
    return found


@pytest.mark.parametrize("threat", LISTED, ids=lambda one: one.words[:60])
def test_each_threat_names_tests_that_exist(threat: Threat) -> None:
    assert threat.tests, f"line {threat.line} of the section names no test"
    for file, test in threat.tests:
        assert file in known_tests(), f"{file} is not a file of tests"
        assert test in known_tests()[file], f"{file} has no {test}"


def test_the_tables_are_read() -> None:
    assert len(LISTED) >= FEWEST
    assert len({one.words for one in LISTED}) == len(LISTED)
    page = "| a | Tests |\n|---|---|\n| b | `test_x.py::test_y`, `::test_z` |\n| c | none |\n"
    assert list(threats(page)) == [
        Threat(3, "b", (("test_x.py", "test_y"), ("test_x.py", "test_z"))),
        Threat(4, "c", ()),
    ]

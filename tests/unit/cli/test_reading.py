"""A README, code and rows as a terminal of 60 columns shows them."""

from __future__ import annotations

import json
from io import StringIO

from rich.console import Console, RenderableType

from gym.cli.file_view import code, readme
from gym.config.example_rows import LONGEST_TEXT, shorten

README = "# name\n\n| | |\n|---|---|\n| Tools | none |\n| Reward | 1.0 |\n\n| mode | reads |\n|---|---|\n| a | b |\n"


def shown(what: RenderableType) -> list[str]:
    console = Console(file=StringIO(), width=60, color_system=None)
    with console.capture() as captured:
        console.print(what)
    return [line.strip() for line in captured.get().splitlines()]


def test_a_table_without_a_head_is_a_list_of_facts() -> None:
    lines = shown(readme(README))
    assert lines[:2] == ["name", ""]
    assert "Tools   none" in lines
    assert lines.index("Reward  1.0") == lines.index("Tools   none") + 1
    assert [line.split() for line in lines if line.startswith("mode")] == [["mode", "reads"]]


def test_a_title_stands_on_the_left() -> None:
    console = Console(file=StringIO(), width=60, color_system=None)
    with console.capture() as captured:
        console.print(readme("# name"))
    assert captured.get().startswith("name")


def test_no_line_of_code_is_cut_off() -> None:
    words = " ".join(f"word{number}" for number in range(40))
    assert " ".join(shown(code(f"about: {words}", "yaml"))).split() == ["about:", *words.split()]


def test_long_texts_of_a_row_end_in_an_ellipsis_wherever_they_stand() -> None:
    long = "x" * (LONGEST_TEXT + 1)
    assert shorten({"a": [long, 1], "b": "short"}) == {"a": ["x" * LONGEST_TEXT + "…", 1], "b": "short"}
    assert "".join(shown(code(json.dumps(shorten({"a": long})), "json"))).count("x") == LONGEST_TEXT

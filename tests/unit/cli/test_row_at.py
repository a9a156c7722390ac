"""Which row `gym ask` and `gym play` are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.cli.commands import play
from gym.cli.commands.ask import read_row
from gym.errors import UserError


def test_lines_of_a_file_count_from_1(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": 1}\n{"id": 2}\n')
    assert [read_row(str(path)), read_row(f"{path}:1"), read_row(f"{path}:2")] == [{"id": 1}, {"id": 1}, {"id": 2}]
    for number in (0, 3):
        with pytest.raises(UserError, match=f"has no line {number} with a row"):
            read_row(f"{path}:{number}")
    with pytest.raises(UserError, match="there is no such file"):
        read_row(f"{path}:two")


def test_example_rows_count_from_0() -> None:
    with pytest.raises(UserError, match="no example row -1") as caught:
        play.command("mcqa", row="-1")
    assert caught.value.hint == "They count from 0."

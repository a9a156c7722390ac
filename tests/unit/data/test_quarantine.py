"""Good and bad lines apart, whole or not at all, and never over an input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.data.findings import Fold
from gym.data.line_blocks import Block
from gym.data.quarantine import plan_quarantine, write_apart
from gym.data.validation import BlockResult
from gym.errors import UserError


def results(name: str) -> Iterator[BlockResult]:
    yield BlockResult(Block(name, 1, b"a\n\nb\r\n"), 2, frozenset({3}), Fold())
    yield BlockResult(Block(name, 4, b"c\nd"), 2, frozenset({5}), Fold())


def test_lines_are_written_where_they_belong(tmp_path: Path) -> None:
    pairs = plan_quarantine(["data/rows.jsonl.gz"], tmp_path / "out")
    assert len(list(write_apart(results("data/rows.jsonl.gz"), pairs))) == 2
    assert (tmp_path / "out" / "rows.good.jsonl").read_bytes() == b"a\nc\n"
    assert (tmp_path / "out" / "rows.bad.jsonl").read_bytes() == b"b\nd\n"
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["rows.bad.jsonl", "rows.good.jsonl"]


def test_nothing_is_left_where_it_ends_badly(tmp_path: Path) -> None:
    def broken() -> Iterator[BlockResult]:
        yield from results("rows.jsonl")
        raise UserError("the disk is gone")

    with pytest.raises(UserError, match="the disk is gone"):
        list(write_apart(broken(), plan_quarantine(["rows.jsonl"], tmp_path / "out")))
    assert list((tmp_path / "out").iterdir()) == []


def test_two_inputs_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a/rows\.jsonl and b/rows\.jsonl\.gz would both write .*rows\.good\.jsonl"):
        plan_quarantine(["a/rows.jsonl", "b/rows.jsonl.gz"], tmp_path)


def test_an_input_is_never_written_over(tmp_path: Path) -> None:
    files = [str(tmp_path / "rows.jsonl"), str(tmp_path / "rows.bad.jsonl")]
    with pytest.raises(UserError, match=r"rows\.bad\.jsonl is an input"):
        plan_quarantine(files, tmp_path)


def test_standard_input_has_a_name_of_its_own(tmp_path: Path) -> None:
    assert plan_quarantine(["-"], tmp_path)["standard input"].good == tmp_path / "stdin.good.jsonl"

"""Why rollouts failed, in a few lines."""

from __future__ import annotations

import json
from pathlib import Path

from gym.cli.failure_reasons import MAX_LETTERS, commonest_reasons


def write_failures(path: Path, *messages: str) -> Path:
    path.write_text("".join(json.dumps({"server": "mine", "message": text}) + "\n" for text in messages))
    return path


def test_the_commonest_reasons_come_first_and_the_others_are_counted(tmp_path: Path) -> None:
    failures = write_failures(tmp_path / "f.jsonl", "a", *["b"] * 3, *["c"] * 2, "d", "e")
    assert commonest_reasons(failures) == ("3 x mine: b", "2 x mine: c", "1 x mine: a", "... and 2 other reasons")


def test_a_reason_is_one_line_of_bounded_length(tmp_path: Path) -> None:
    (reason,) = commonest_reasons(write_failures(tmp_path / "f.jsonl", "first\n  second " + "x" * 10_000))
    assert reason.startswith("1 x mine: first second xxx")
    assert len(reason) == len("1 x ") + MAX_LETTERS + 1


def test_a_file_that_is_gone_or_torn_is_not_an_error(tmp_path: Path) -> None:
    assert commonest_reasons(tmp_path / "absent.jsonl") == ()
    (tmp_path / "torn.jsonl").write_text('{"server": "mi')
    assert commonest_reasons(tmp_path / "torn.jsonl") == ("1 x a line that cannot be read",)

"""What `gym export` refuses before it reads a rollout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import gym
from tests.support.recordings import ran, write_collection


@pytest.mark.parametrize(("option", "form"), [("--min-reward", "sft"), ("--margin", "dpo")])
def test_no_number_is_no_border(tmp_path: Path, option: str, form: str) -> None:
    write_collection(tmp_path / "x.jsonl", [ran(0, 0, 1.0), ran(0, 1, 0.0)])
    done = gym("export", "x.jsonl", "--to", form, "-o", "out.jsonl", option, "nan", cwd=tmp_path)
    assert done.returncode == 2
    assert f"Invalid value for '{option}'" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()

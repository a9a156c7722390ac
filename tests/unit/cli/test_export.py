"""What `gym export` refuses before it reads a rollout, and the names that no command writes to."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from gym.data.whole_files import refuse_other_form
from gym.errors import UserError
from tests.support.cli import gym
from tests.support.recordings import ran, row, write_collection


@pytest.mark.parametrize(("option", "form"), [("--min-reward", "sft"), ("--margin", "dpo")])
def test_what_is_not_a_number_is_not_a_border(tmp_path: Path, option: str, form: str) -> None:
    write_collection(tmp_path / "x.jsonl", [ran(0, 0, 1.0), ran(0, 1, 0.0)])
    done = gym("export", "x.jsonl", "--to", form, "-o", "out.jsonl", option, "nan", cwd=tmp_path)
    assert done.returncode == 2
    assert f"Invalid value for '{option}'" in done.stderr
    assert not (tmp_path / "out.jsonl").exists()


ROLLOUTS = ("rollouts", "rows.jsonl", "--url", "http://127.0.0.1:9")
FILTER = ("data", "filter", "rows.jsonl", "--by", "x.jsonl", "--pass-rate", "0..1")


@pytest.mark.parametrize(
    ("words", "name", "said"),
    [
        (("export", "x.jsonl", "--to", "sft"), "e.parquet", "JSON lines, not a Parquet table"),
        (("export", "x.jsonl", "--to", "dpo"), "e.jsonl.GZ", "written unpacked"),
        (("export", "x.jsonl", "--to", "parquet"), "e.jsonl", "a Parquet table, not JSON"),
        (("export", "x.jsonl", "--to", "parquet"), "e.parquet.zst", "written unpacked"),
        (ROLLOUTS, "r.jsonl.zst", "written unpacked"),
        (ROLLOUTS, "r.parquet", "JSON lines, not a Parquet table"),
        (FILTER, "kept.jsonl.gz", "written unpacked"),
        (("data", "sample", "rows.jsonl", "-n", "1"), "some.jsonl.xz", "written unpacked"),
    ],
)
def test_no_file_gets_a_name_that_says_what_it_is_not(
    tmp_path: Path, words: tuple[str, ...], name: str, said: str
) -> None:
    write_collection(tmp_path / "x.jsonl", [ran(0, 0, 1.0), ran(0, 1, 0.0)])
    (tmp_path / "rows.jsonl").write_bytes(orjson.dumps(row(0)))
    there = sorted(tmp_path.iterdir())
    done = gym(*words, "-o", name, cwd=tmp_path)
    assert done.returncode == 1
    assert f"{name}: the file is {said}" in done.stderr
    assert sorted(tmp_path.iterdir()) == there


def test_any_other_name_is_as_good_as_another(tmp_path: Path) -> None:
    for name in ("e.jsonl", "e", "e.gz.txt", "folder.gz/e.json"):
        refuse_other_form(tmp_path / name)
    for name in ("e.parquet", "e", "e.pq", "folder.jsonl/e"):
        refuse_other_form(tmp_path / name, table=True)


def test_the_folder_without_a_name_is_not_a_file_to_write() -> None:
    with pytest.raises(UserError, match=r"^\. is a folder\n"):
        refuse_other_form(Path())

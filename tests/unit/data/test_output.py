"""Files that are written whole, together, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.data.whole_files import WholeFiles, whole_file
from gym.errors import UserError


def test_none_of_several_is_replaced_where_the_work_fails(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")

    def work() -> None:
        with WholeFiles() as files:
            files.open(tmp_path / "a").write(b"new")
            files.open(tmp_path / "b").write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "old"}


def test_all_are_replaced_where_it_ends_well(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with WholeFiles() as files:
        files.open(tmp_path / "a").write(b"new")
        files.open(tmp_path / "deep" / "b").write(b"two")
        assert (tmp_path / "a").read_text() == "old"
    found = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert found == {"a": "new", "deep/b": "two"}


def test_a_file_that_another_writes_is_reported_and_left_to_it(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a") as first:
        first.write(b"mine")
        with pytest.raises(UserError, match="being written by another command"), whole_file(tmp_path / "a"):
            pass
    assert (tmp_path / "a").read_text() == "mine"


def test_a_folder_is_not_an_output(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder"), whole_file(tmp_path):
        pass


def test_a_file_in_the_place_of_its_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    with (
        pytest.raises(UserError, match=r"a/b cannot be written: (File exists|Not a directory)"),
        whole_file(tmp_path / "a" / "b"),
    ):
        pass
    assert (tmp_path / "a").read_text() == "mine"

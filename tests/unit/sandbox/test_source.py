"""A folder becomes a request: the same folder the same one, so that its image is made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.errors import UserError
from gym.sandbox.build_folder import read_build


def test_a_folder_travels_whole_and_in_one_order(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:3.13-slim\nCOPY . /context\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.bin").write_bytes(b"\x00\xff")
    (tmp_path / "a.txt").write_text("a")
    build = read_build(tmp_path)
    assert build.dockerfile == "FROM python:3.13-slim\nCOPY . /context\n"
    assert list(build.files.items()) == [("a.txt", b"a"), ("more/b.bin", b"\x00\xff")]
    assert build == read_build(tmp_path)


def test_a_folder_without_a_dockerfile_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path / 'nothing'} has no Dockerfile"):
        read_build(tmp_path / "nothing")

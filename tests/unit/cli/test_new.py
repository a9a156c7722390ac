"""`gym new` says what to type next, and each line of it works from here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gym.server.testing import Answered

GYM = (sys.executable, "-m", "gym")


def gym(folder: Path, *arguments: str) -> str:
    env = os.environ | {"COLUMNS": "200"}
    return subprocess.run((*GYM, *arguments), cwd=folder, env=env, capture_output=True, text=True, check=True).stdout


def test_every_template_stands_apart_from_what_it_is(tmp_path: Path) -> None:
    lines = gym(tmp_path, "new", "resources", "--list-templates").splitlines()
    names = [line.split("  ")[0] for line in lines]
    assert "played_environment" in names
    assert len({len(line) - len(line[len(name) :].lstrip()) for line, name in zip(lines, names, strict=True)}) == 1


def test_a_server_that_is_made_elsewhere_is_found_by_the_commands_that_are_printed(tmp_path: Path) -> None:
    said = gym(tmp_path, "new", "resources", "mine", "--to", "a/b b")
    assert "test it  GYM_PATH='a/b b' gym test mine\n" in said
    assert "run it   GYM_PATH='a/b b' gym up mine --model oracle\n" in said
    env = os.environ | {"GYM_PATH": "a/b b"}
    argv = (*GYM, "info", "mine")
    assert subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, check=False).returncode == 0


def test_a_server_that_is_made_here_needs_no_more_than_its_name(tmp_path: Path) -> None:
    assert "test it  gym test mine\n" in gym(tmp_path, "new", "resources", "mine")


def test_a_test_that_meets_a_failure_shows_the_servers_words() -> None:
    body = {"error": {"kind": "resources", "message": "verify returned None"}}
    with pytest.raises(AssertionError, match="answered 500: resources: verify returned None"):
        _ = Answered(500, body, None).result  # type: ignore[arg-type]
    assert Answered(200, {"reward": 1.0}, None).result == {"reward": 1.0}  # type: ignore[arg-type]

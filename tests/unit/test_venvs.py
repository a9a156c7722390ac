"""Environments of the cache folder, and where the bytecode of what runs in them goes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gym import labels
from gym.venvs import bytecode_elsewhere, hypothesis_elsewhere, install_environment, is_made
from tests.support.wheels import write_wheel


@pytest.mark.parametrize(("compiled", "none", "there"), [(False, "", False), (True, "", True), (False, "1", True)])
def test_packages_are_compiled_at_once_only_for_who_may_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool, none: str, there: bool
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", none)
    folder = tmp_path / "environment"
    wheel = write_wheel(tmp_path, "tiny_thing", "VALUE = 42")
    install_environment(folder, [str(wheel)], sys.executable, compiled=compiled)
    assert is_made(folder)
    assert bool(list(folder.rglob("tiny_thing*.pyc"))) == there


def test_bytecode_goes_to_the_cache_folder_and_nothing_beside_the_sources(tmp_path: Path) -> None:
    (tmp_path / "tiny_thing.py").write_text("VALUE = 42\n")
    environ = {labels.ENV_CACHE: str(tmp_path / "cache"), "PATH": os.environ["PATH"]}
    environ |= bytecode_elsewhere(environ)
    subprocess.run([sys.executable, "-c", "import tiny_thing"], cwd=tmp_path, env=environ, check=True)
    (written,) = tmp_path.rglob("tiny_thing*.pyc")
    assert written.is_relative_to(tmp_path / "cache" / "bytecode")


def test_tables_of_property_tests_stay_in_the_cache_folder_or_where_the_user_has_them(tmp_path: Path) -> None:
    environ = {labels.ENV_CACHE: str(tmp_path / "cache"), "PATH": os.environ["PATH"]}
    text = "from hypothesis import strategies; strategies.characters(codec='utf-8').example()"
    argv = [sys.executable, "-W", "ignore", "-c", text]
    subprocess.run(argv, cwd=tmp_path, env=environ | hypothesis_elsewhere(environ), check=True)
    assert list((tmp_path / "cache" / "bytecode").rglob("*utf-8*"))
    own = {"HYPOTHESIS_STORAGE_DIRECTORY": "/mine"}
    assert hypothesis_elsewhere(environ | own) == own


def test_who_wants_no_bytecode_gets_none_and_reads_what_is_there() -> None:
    assert bytecode_elsewhere({"PYTHONDONTWRITEBYTECODE": "1"}) == {}

"""A server whose environment lacks a library, or has another version of it."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import pytest

import gym
from gym.errors import UserError
from gym.server.serve import load_app

HERE = f"its environment (Python {platform.python_version()})"


def test_a_library_that_is_missing_is_named_with_the_place_that_wants_it(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import sys\nimport library_of_games.chess\n")
    with pytest.raises(UserError) as caught:
        load_app(tmp_path / "app.py")
    assert caught.value.what == f"app.py:2: {HERE} has no `library_of_games`."
    assert "requirements.txt" in caught.value.hint
    assert "python_version:" in caught.value.hint


def test_a_library_of_another_version_is_named_with_the_one_that_is_here(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from helper_of_it import x\n")
    (tmp_path / "helper_of_it.py").write_text("from orjson import of_tomorrow\n")
    with pytest.raises(UserError, match="cannot import name 'of_tomorrow' from 'orjson'") as caught:
        load_app(tmp_path / "app.py")
    assert caught.value.what.startswith("helper_of_it.py:1: ")
    assert caught.value.what.endswith(f"{HERE} has orjson {version('orjson')}.")


def test_what_a_library_wants_in_turn_is_named_with_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / "outer_library.py").write_text("import inner_library_of_it\n")
    monkeypatch.syspath_prepend(str(tmp_path / "libraries"))
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "app.py").write_text("import outer_library\n")
    with pytest.raises(UserError, match="has no `inner_library_of_it`") as caught:
        load_app(tmp_path / "server" / "app.py")
    assert caught.value.what.startswith(f"app.py:1, by way of {tmp_path / 'libraries' / 'outer_library.py'}: ")


def test_a_mistake_in_a_module_of_its_own_is_not_a_missing_library(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from rules_of_it import absent\n")
    (tmp_path / "rules_of_it.py").write_text("")
    with pytest.raises(UserError, match="ImportError: cannot import name 'absent'") as caught:
        load_app(tmp_path / "app.py")
    assert 'app.py", line 1' in caught.value.what
    assert "environment" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("from gym.server import Judge", "gym.server has no Judge: from gym.server.judge import Judge"),
        ("from gym.server import judged", "gym.server has no judged: from gym.server.judge import judged"),
        ("from gym.server import Sandboxes", "gym.server has no Sandboxes: from gym.sandbox"),
        ("from gym.server import items", "gym.server has no items: from gym.wire import items"),
        ("from gym.server import ResourceServer", "gym.server has no ResourceServer: did you mean ResourcesServer?"),
        ("from gym.server import Xyzzy", f"gym.server has no Xyzzy, in this version of it ({gym.__version__})"),
        ("import gym.servr", "gym has no module servr: did you mean server?"),
        ("from gym.server.judg import Judge", "gym.server has no module judg: did you mean judge?"),
        ("import gym.server.judge.x", "gym.server.judge has no module x, in this version"),
    ],
)
def test_a_name_that_gym_has_elsewhere_is_named_with_its_module(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "app.py").write_text(f"import os\n{line}\n")
    with pytest.raises(UserError) as caught:
        load_app(tmp_path / "app.py")
    assert str(caught.value).startswith(f"app.py:2: {said}")
    assert "requirements.txt" not in str(caught.value)

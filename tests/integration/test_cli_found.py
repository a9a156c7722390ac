"""Stacks are found again: from any folder, after a crash, when their folder is gone; and all are stopped at once."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gym.runtime.identity import is_alive
from tests.support.cli import gym
from tests.support.stacks import kill_owners, recorded, until

UP = ("up", "simple_weather", "--model", "scripted", "--runtime", "local", "--port", "0")
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """`gym` of a person of their own, without an engine; what they started is stopped at the end."""
    own = {"XDG_STATE_HOME": str(tmp_path / "state"), "DOCKER_HOST": "unix:///no/such/socket"}

    def one(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return gym(*words, cwd=cwd, env=own)

    yield one
    one("down", "--all", cwd=tmp_path)


def test_a_stack_is_found_from_every_folder_until_it_is_down(run: Run, tmp_path: Path, elsewhere: Path) -> None:
    home = tmp_path / "work"
    home.mkdir()
    assert "No stack of yours runs" in run("ls", cwd=elsewhere).stderr
    started = run(*UP, "--stack", "eval", cwd=home)
    assert started.returncode == 0, started.stderr

    (found,) = json.loads(run("ls", "--json", cwd=elsewhere).stdout)
    assert (found["stack"], found["folder"], found["runtime"]) == ("eval", str(home), "local")
    assert (found["state"], found["lost"]) == ("healthy", False)
    assert f":{found['port']}" in started.stdout
    shown = run("ls", cwd=elsewhere)
    assert str(home) in shown.stdout
    assert "Stacks of containers are not listed" in shown.stderr

    # One that is named is found anywhere, the default one only here and above.
    assert "simple-weather-1" in run("ps", "--stack", "eval", cwd=elsewhere).stdout
    assert run("ps", cwd=elsewhere).returncode == 1
    assert "with --stack: eval" in run("ps", cwd=elsewhere).stderr
    assert "Did you mean --stack eval?" in run("down", "--stack", "evla", cwd=elsewhere).stderr
    beside = run("exec", "--stack", "eval", "simple_weather", "--", "sh", "-c", "pwd; exit 7", cwd=elsewhere)
    assert beside.stdout.strip().endswith("resources/simple_weather")
    assert beside.returncode == 7
    lines = run("logs", "--stack", "eval", cwd=elsewhere).stdout.splitlines()
    assert all(" | " in line for line in lines)

    assert f"Stopped stack 'eval' of {home}." in run("down", "--stack", "eval", cwd=elsewhere).stderr
    assert run("ls", "--json", cwd=elsewhere).stdout.strip() == "[]"


def test_two_stacks_of_one_name_are_told_apart_and_stopped_by_folder_or_all_at_once(
    run: Run, tmp_path: Path, elsewhere: Path
) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        assert run(*UP, cwd=folder).returncode == 0
    for words in (("ps",), ("down", "--stack", "gym")):
        refused = run(*words, cwd=elsewhere)
        assert refused.returncode == 1
        assert all(str(folder) in refused.stderr for folder in folders)
        assert "gym down --folder FOLDER" in refused.stderr
    assert run("down", "--folder", "../one", cwd=elsewhere).returncode == 0
    left = run("ps", cwd=elsewhere)
    assert f"One runs in {folders[1]} (local, port" in left.stderr
    assert "--stack gym" in left.stderr
    assert f"Stopped stack 'gym' of {folders[1]}." in run("down", "--all", cwd=elsewhere).stderr
    assert "No stack of yours runs" in run("ls", cwd=elsewhere).stderr


def test_a_crash_and_a_folder_that_is_gone_leave_a_stack_that_is_named_and_stopped(
    run: Run, tmp_path: Path, elsewhere: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    assert run(*UP, "--stack", "crash", cwd=folder).returncode == 0
    servers = recorded(folder / ".gym" / "crash")[1:]
    kill_owners(folder / ".gym" / "crash")
    assert "its supervisor was killed" in run("ls", cwd=elsewhere).stdout
    shutil.rmtree(folder)
    assert "its folder is gone" in run("ls", cwd=elsewhere).stdout
    assert "gym down --stack" in run("ps", "--stack", "crash", cwd=elsewhere).stderr
    assert run("down", "--stack", "crash", cwd=elsewhere).returncode == 0
    until(lambda: not any(map(is_alive, servers)))
    assert run("ls", "--json", cwd=elsewhere).stdout.strip() == "[]"

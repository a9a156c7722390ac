"""Building, pinning and carrying a stack, as a user types it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_cli_compose import engine
from tests.support.cli import gym
from tests.support.docker import need_engine


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    need_engine()
    yield tmp_path
    gym("down", cwd=tmp_path, env=engine())


@pytest.mark.docker
def test_a_stack_is_built_locked_saved_and_brought_up_elsewhere(folder: Path) -> None:
    words = ("simple_weather", "--model", "scripted")
    built = gym("build", *words, cwd=folder, env=engine(), timeout=300)
    assert built.returncode == 0, built.stderr
    assert "Every image was there already." in gym("build", *words, cwd=folder, env=engine()).stderr

    assert gym("up", *words, "--port", "0", cwd=folder, env=engine(), timeout=300).returncode == 0
    assert gym("lock", cwd=folder, env=engine()).returncode == 0
    assert set(json.loads((folder / "gym.lock").read_text())["instances"]) == {
        "policy_model",
        "simple_weather",
        "simple_weather_simple_agent",
    }
    assert gym("up", *words, "--port", "0", "--locked", cwd=folder, env=engine()).returncode == 0
    other = gym("up", "mcqa", "--model", "scripted", "--port", "0", "--locked", cwd=folder, env=engine())
    assert other.returncode == 1
    assert "mcqa: not in the lock" in other.stderr

    saved = gym("save", "-o", "weather.tar", cwd=folder, env=engine(), timeout=120)
    assert saved.returncode == 0, saved.stderr
    assert gym("down", cwd=folder, env=engine()).returncode == 0
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    name = ("--stack", "carried")
    images = gym("load", "../weather.tar", "--no-start", *name, cwd=elsewhere, env=engine(), timeout=300)
    assert "Nothing was started: gym load ../weather.tar --stack carried starts it" in images.stderr
    loaded = gym("load", "../weather.tar", "--port", "0", *name, cwd=elsewhere, env=engine(), timeout=300)
    assert loaded.returncode == 0, loaded.stderr
    assert f"gym down {' '.join(name)}" in loaded.stdout  # and not the name that it had before
    assert json.loads(gym("ps", "--json", *name, cwd=elsewhere, env=engine()).stdout)["stack"] == name[1]
    done = gym("rollouts", "simple_weather", "-o", "out.jsonl", *name, cwd=elsewhere, env=engine())
    assert gym("down", *name, cwd=elsewhere, env=engine()).returncode == 0
    assert done.returncode == 0, done.stderr
    rewards = [json.loads(line)["reward"] for line in (elsewhere / "out.jsonl").read_text().splitlines()]
    assert rewards == [1.0] * 5


def test_what_is_not_a_saved_stack_is_refused(tmp_path: Path) -> None:
    need_engine()
    (tmp_path / "odd.tar").write_text("no archive")
    refused = gym("load", "odd.tar", cwd=tmp_path, env=engine())
    assert refused.returncode == 1
    assert "cannot be read as a saved stack" in refused.stderr
    missing = gym("load", "missing.tar", cwd=tmp_path, env=engine())
    assert "missing.tar cannot be read as a saved stack: No such file or directory" in missing.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["odd.tar"]


def test_locking_is_about_images(tmp_path: Path) -> None:
    refused = gym("up", "mcqa", "--runtime", "local", "--locked", cwd=tmp_path)
    assert refused.returncode == 1
    assert "--locked is about images" in refused.stderr

"""Servers written against nemo_gym, with the package that the registry has: started as they are, on both runtimes.

It is large (300 MB to fetch, 1.2 GB installed), hence `long`; tests/unit/runtime takes each step with small wheels.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import gym

TREE = Path(__file__).parents[1] / "support" / "upstream_tree"
CONFIGS = (
    "resources_servers/letter_count/configs/letter_count.yaml",
    "responses_api_models/parrot_model/configs/parrot_model.yaml",
)
MINUTES = 20 * 60.0

pytestmark = pytest.mark.long


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """A repository in the other toolkit's layout, without the toolkit in it."""
    tree = shutil.copytree(TREE, tmp_path / "theirs")
    yield tree
    gym("down", "--stack", "theirs", cwd=tree, timeout=MINUTES)


@pytest.mark.parametrize("runtime", ["local", pytest.param("compose", marks=pytest.mark.docker)])
def test_they_start_unmodified_and_every_rollout_is_verified(tree: Path, tmp_path: Path, runtime: str) -> None:
    words = (f"+config_paths=[{','.join(CONFIGS)}]", "--runtime", runtime, "--port", "0", "--stack", "theirs")
    started = gym("up", *words, "--timeout", "600", cwd=tree, timeout=MINUTES)
    assert started.returncode == 0, started.stdout + started.stderr

    rows = tmp_path / "rollouts.jsonl"
    done = gym("rollouts", "letter_count", "-o", str(rows), "--repeats", "4", "--stack", "theirs", cwd=tree)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in rows.read_text("utf-8").splitlines()]
    assert [(one["reward"], one["tool_calls"]) for one in found] == [(1.0, 1)] * 20
    log = gym("logs", "--stack", "theirs", cwd=tree).stdout
    assert "Uvicorn running" in log
    assert "Started Ray cluster" not in log


def test_their_tests_run_in_their_environment(tree: Path) -> None:
    done = gym("test", "letter_count", cwd=tree, timeout=MINUTES)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_one_that_ends_at_each_start_is_reported_after_the_third_end(tree: Path) -> None:
    app = tree / "resources_servers" / "letter_count" / "app.py"
    app.write_text(
        app.read_text("utf-8").replace("class LetterCountServer", "raise OSError('no words')\nclass Letters")
    )
    words = (f"+config_paths=[{','.join(CONFIGS)}]", "--runtime", "local", "--port", "0", "--stack", "theirs")
    started = gym("up", *words, "--timeout", "1000", cwd=tree, timeout=MINUTES)
    assert started.returncode == 1
    assert re.search(r"letter-count-1: ended [3-9] times while it started", started.stderr)
    assert "OSError: no words" in started.stderr

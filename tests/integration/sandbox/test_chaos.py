"""Processes are killed while sandboxes work: no reward becomes another, and nothing is left a minute later."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import gym
from tests.support.docker import need_engine
from tests.support.sandbox_chaos import IMAGE, TIMEOUT, chaos
from tests.support.sandbox_stack import listed

pytestmark = pytest.mark.docker

REPO = Path(__file__).parents[3]


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A socket's path is short."""
    folder = Path(tempfile.mkdtemp(prefix="gym"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def can_run_an_engine() -> bool:
    needed = all(shutil.which(name) for name in ("dockerd", "unshare", "ip"))
    return sys.platform == "linux" and os.getuid() == 0 and needed


def test_kills_under_load_change_no_reward_and_leave_nothing(tmp_path: Path) -> None:
    need_engine()
    with chaos(tmp_path, rows=40) as stack:
        seen = stack.fire(kills=3)
        assert seen.honest, seen
        assert (seen.kills["broker"], seen.kills["server"], seen.kills["collector"]) == (1, 1, 1)
        assert seen.rewarded > 30, seen
        busy = stack.start_load()
        busy.kill()
        stack.kill_all()
        assert stack.seconds_until_clear(TIMEOUT) < TIMEOUT, stack.labelled()  # how fast it was the bench says
        busy.wait()
        assert gym("down", cwd=tmp_path).returncode == 0
        assert listed(tmp_path) == []
        assert stack.labelled() == []


@pytest.mark.skipif(not can_run_an_engine(), reason="a second engine takes root, dockerd and unshare")
def test_an_engine_that_is_restarted_under_load_costs_attempts_and_no_reward(short_folder: Path) -> None:
    need_engine()
    image = short_folder / "image.tar"
    subprocess.run(["docker", "save", "--output", str(image), IMAGE], check=True)
    argv = ["unshare", "--net", sys.executable, "-m", "tests.support.sandbox_engine", str(short_folder), str(image)]
    done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    assert seen["kills"] == {"engine": 2}
    assert (seen["lost"], seen["doubled"], seen["wrong"]) == (0, 0, 0)
    assert seen["rewarded"] > 30, seen
    assert seen["left"] == []

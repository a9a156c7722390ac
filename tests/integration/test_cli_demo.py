"""scripts/demo: from nothing to 40 verified rollouts, and nothing left behind."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import gym
from tests.support.cli import environment

DEMO = Path(gym.__file__).parents[1] / "scripts" / "demo"


def test_the_demo_collects_40_rollouts_and_leaves_nothing(tmp_path: Path) -> None:
    env = environment({"TMPDIR": str(tmp_path), "DOCKER_HOST": "unix:///no/such/socket"})
    done = subprocess.run([DEMO], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^all +40 +0\.\d+ +0$", done.stdout, re.M)
    assert re.search(r"tool call get_weather", done.stdout)
    # The folder of control sockets is every stack's and stays; it is empty.
    assert [path for path in tmp_path.rglob("*") if path != tmp_path / f"gym-{os.getuid()}"] == []
    assert wait_until_gone(str(tmp_path)) == ""


def wait_until_gone(marker: str) -> str:
    """Processes that still name the demo's folder; the last of them may take a moment."""
    ends = time.monotonic() + 10
    while True:
        listed = subprocess.run(["ps", "-eww", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
        found = [line for line in listed.splitlines() if marker in line and line.split()[0] != str(os.getpid())]
        if not found or time.monotonic() > ends:
            return "\n".join(found)
        time.sleep(0.05)

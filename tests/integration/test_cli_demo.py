"""scripts/demo: from nothing to 40 verified rollouts, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import gym
from tests.support.cli import environment

DEMO = Path(gym.__file__).parents[1] / "scripts" / "demo"


def test_the_demo_collects_40_rollouts_and_leaves_nothing(tmp_path: Path) -> None:
    env = environment({"TMPDIR": str(tmp_path), "DOCKER_HOST": "unix:///no/such/socket"})
    done = subprocess.run([DEMO], env=env, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^all +40 +0\.\d+ +0$", done.stdout, re.M)
    assert re.search(r"tool call get_weather", done.stdout)
    assert "scripts/demo --keep leaves the stack up" in done.stdout.splitlines()[-1]
    assert wait_until_gone(str(tmp_path)) == ""
    # The folder of control sockets is every stack's and stays; it is empty.
    assert [path for path in tmp_path.rglob("*") if path != tmp_path / f"gym-{os.getuid()}"] == []


def test_a_kept_demo_leaves_its_stack_up_and_a_page_of_its_rollouts(tmp_path: Path) -> None:
    # A checkout of its own, so that a demo in this one stays; its environment is this one's.
    (tmp_path / "scripts").mkdir()
    shutil.copy(DEMO, tmp_path / "scripts")
    (tmp_path / "scripts" / "env").write_text("#!/bin/sh\n")
    (tmp_path / "scripts" / "env").chmod(0o755)
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    env = environment({"DOCKER_HOST": "unix:///no/such/socket"})
    demo = [str(tmp_path / "scripts" / "demo"), "--keep"]
    try:
        done = subprocess.run(demo, env=env, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        links = dict(re.findall(r"^(console|rollouts|stop) +(.+)$", done.stdout, re.M))
        with urllib.request.urlopen(f"{links['console']}/servers", timeout=60) as reply:
            assert json.loads(reply.read())["stack"] == "demo"
        assert links["rollouts"] == (tmp_path / ".gym" / "demo" / "rollouts.html").as_uri()
        assert "get_weather" in (tmp_path / ".gym" / "demo" / "rollouts.html").read_text("utf-8")
    finally:
        subprocess.run(
            [tmp_path / ".venv" / "bin" / "gym", "down", "--stack", "demo"], cwd=tmp_path, env=env, check=True
        )
    assert links["stop"] == ".venv/bin/gym down --stack demo"
    assert wait_until_gone(str(tmp_path)) == ""


def wait_until_gone(marker: str) -> str:
    """Processes that still name the demo's folder; the last of them may take a moment."""
    ends = time.monotonic() + 120
    while True:
        listed = subprocess.run(["ps", "-eww", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
        found = [line for line in listed.splitlines() if marker in line and line.split()[0] != str(os.getpid())]
        if not found or time.monotonic() > ends:
            return "\n".join(found)
        time.sleep(0.05)

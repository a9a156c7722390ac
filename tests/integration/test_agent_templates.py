"""`gym new --template`: each library as it comes from its registry, in an environment of its own, and each shape."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gym.cli.scaffold import list_templates
from gym.files import asset_dir
from tests.support.cli import gym
from tests.support.docker import remove_images_of
from tests.unit.templates.test_templates import OF_LIBRARIES

SMALL = "mcp"  # what its environment has, the checkout's own has nearly all of
NAMES = [one.name for one in list_templates(asset_dir("templates")) if one.kind == "agent"]


@pytest.mark.parametrize("name", [one if one == SMALL else pytest.param(one, marks=pytest.mark.long) for one in NAMES])
def test_a_new_agent_of_a_library_passes_its_tests(name: str, tmp_path: Path) -> None:
    made = gym("new", "agent", "my_agent", "--template", name, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    tested = gym("test", "my_agent", cwd=tmp_path, timeout=900)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "4 passed" in tested.stdout


def test_the_templates_are_listed_and_another_one_is_refused(tmp_path: Path) -> None:
    listed = gym("new", "agent", "--list-templates", cwd=tmp_path)
    assert listed.returncode == 0
    assert all(name in listed.stdout for name in NAMES)
    refused = gym("new", "agent", "mine", "--template", "langraph", cwd=tmp_path)
    assert refused.returncode == 1
    assert "langgraph" in refused.stderr
    assert not (tmp_path / "mine").exists()
    other = gym("new", "model", "mine", "--template", "mcp", cwd=tmp_path)
    assert (other.returncode, "Leave --template out" in other.stderr) == (1, True)


def test_an_environment_of_each_shape_passes_its_tests(tmp_path: Path) -> None:
    shapes = [one.name for one in list_templates(asset_dir("templates")) if one.kind == "resources"]
    if shutil.which("redis-server") is None:
        shapes.remove("sidecar")
    for shape in shapes:
        made = gym("new", "resources", f"my_{shape}", "--template", shape, cwd=tmp_path)
        assert made.returncode == 0, made.stderr
    tested = gym("test", *(f"my_{shape}" for shape in shapes), cwd=tmp_path, timeout=900)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    for shape in shapes:
        audited = gym("audit", f"my_{shape}", "--quick", "--only", "bad rows", cwd=tmp_path, timeout=180)
        assert audited.returncode == 0, audited.stdout + audited.stderr
    for shape in OF_LIBRARIES:
        grown = gym("data", "from", f"my_{shape}", "--rows", "20", "-o", "rows.jsonl", cwd=tmp_path)
        assert grown.returncode == 0, grown.stdout + grown.stderr
        rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text("utf-8").splitlines()]
        assert len({json.dumps(row) for row in rows}) == 20
        assert all(row["agent_ref"]["name"].startswith(f"my_{shape}_") for row in rows)
    check_oracle_is_paid([f"my_{shape}" for shape in shapes], tmp_path)


def check_oracle_is_paid(names: list[str], cwd: Path) -> None:
    """As each scaffold's README promises."""
    local = {"DOCKER_HOST": "unix:///no/such/socket"}
    up = gym("up", *names, "--model", "oracle", "--port", "0", cwd=cwd, env=local, timeout=300)
    try:
        assert up.returncode == 0, up.stderr
        rolled = gym("rollouts", *names, "-o", "out.jsonl", cwd=cwd, env=local, timeout=300)
        assert rolled.returncode == 0, rolled.stderr
        found = [json.loads(line) for line in (cwd / "out.jsonl").read_text().splitlines()]
        assert {one["_gym"]["agent"]: one["reward"] for one in found if one["reward"] < 1} == {}
        assert len(found) >= len(names)
    finally:
        gym("down", cwd=cwd, env=local)


@pytest.mark.docker
def test_a_server_with_its_own_dockerfile_is_paid_in_containers_by_the_test_it_comes_with(tmp_path: Path) -> None:
    made = gym("new", "resources", "my_primes", "--template", "dockerfile", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    settings = ("-c", os.devnull, f"--rootdir={tmp_path}", "-p", "no:cacheprovider", "-p", "no:asyncio")
    argv = (sys.executable, "-m", "pytest", "-q", "-m", "docker", *settings, "my_primes")
    try:
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    finally:
        remove_images_of(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr

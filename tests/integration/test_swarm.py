"""A stack on a Swarm: the words of every runtime, and nothing lost when a node is drained or gone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from gym.programs import run_program
from tests.support.cli import gym
from tests.support.docker import need_engine
from tests.support.swarm_run import REPEATS, TOKEN

pytestmark = [pytest.mark.docker, pytest.mark.long]  # images are built, pushed and pulled, and a Swarm is slow to move
NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
ROWS = 5


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """What the stack runs from, in one file: the nodes have engines of their own, which reach no registry outside."""
    need_engine()
    _need_nodes()
    cwd = tmp_path / "built"
    cwd.mkdir()
    engine = {key: value for key, value in os.environ.items() if key.startswith("DOCKER_")}
    built = gym("build", "mcqa", "--model", "scripted", cwd=cwd, env=engine, timeout=600)
    assert built.returncode == 0, built.stderr
    text = gym("render", "mcqa", "--model", "scripted", "--target", "swarm", cwd=cwd, env=engine).stdout
    names = sorted(set(re.findall(r"^    image: (\S+)$", text, re.MULTILINE)))
    assert len(names) == 5, text
    run_program(["docker", "save", "--output", str(tmp_path / "images.tar"), *names])
    return tmp_path / "images.tar"


def test_a_stack_on_a_swarm_of_one_node_takes_the_words_of_every_runtime(images: Path) -> None:
    seen = _run(images, 1)
    alone = {"router": "1/1", "console": "1/1", "mcqa-1": "1/1", "mcqa-simple-agent-1": "1/1", "policy-model-1": "1/1"}
    assert seen["services"] == seen["scaled_back"] == alone
    assert seen["scaled"] == {**alone, "mcqa-2": "1/1"}
    assert seen["replaced"] == 1
    _check_whole(seen["run"])
    assert seen["ps"]["healthy"]
    assert seen["ps"]["runtime"] == "swarm"
    assert [(one["runtime"], one["state"]) for one in seen["ls"]] == [("swarm", "healthy")]
    assert "mcqa is ready" in seen["logs"]
    assert seen["followed"]["code"] == 130
    assert any("mcqa is ready" in line for line in seen["followed"]["lines"])
    assert {"mcqa-1", "mcqa-simple-agent-1", "policy-model-1", "console"} <= {*seen["tails"]["listed"]["names"]}
    assert any("mcqa is ready" in line for line in seen["tails"]["read"]["lines"])
    assert seen["exec"] == "mcqa\n"
    assert TOKEN not in seen["shown"]
    assert re.search(r"mcqa-1: ended ([3-9]|\d\d) times while it started", seen["unhealthy"]), seen["unhealthy"]
    assert seen["objects"] == [1, 3]  # the token; what each server reads
    assert seen["left"] == [{}, [0, 0], []]


def test_nothing_is_lost_when_a_node_is_drained_and_another_one_vanishes_in_mid_run(images: Path) -> None:
    seen = _run(images, 3)
    assert "--registry" in seen["refused"]
    assert all(count > 0 for count in seen["places"].values())
    assert seen["lost_tasks"] > 0
    _check_whole(seen["undisturbed"])
    for name in ("drained", "lost"):
        _check_whole(seen[name])
        assert seen[name]["rewards"] == seen["undisturbed"]["rewards"]
    assert seen["lost_stack"] == [True]
    assert seen["left"] == [{}, [0, 0], []]


def _check_whole(run: dict[str, Any]) -> None:
    """Every key once, and none of them a failure."""
    assert run["code"] == 0, run["err"]
    assert run["failures"] == []
    assert len(run["rewards"]) == ROWS * REPEATS
    assert all(len(each) == 1 for each in run["rewards"].values())


def _run(images: Path, nodes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="gs") as place:  # a socket's path has room for 107 letters
        argv = [*NAMESPACES, sys.executable, "-m", "tests.support.swarm_run", place, str(images), str(nodes)]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def _need_nodes() -> None:
    """Namespaces and VXLAN: where this machine gives none, there can be no nodes on it."""
    missing = [
        name for name in ("unshare", "nsenter", "ip", "dockerd", "docker-registry") if shutil.which(name) is None
    ]
    words = "ip link add gymtry type vxlan id 4097 dstport 4790 && ip link del gymtry"
    if not missing:
        tried = subprocess.run([*NAMESPACES, "sh", "-c", words], check=False, capture_output=True, text=True)
        missing = [tried.stderr.strip()] if tried.returncode else []
    if missing:
        assert not os.environ.get("GYM_REQUIRE_DOCKER"), missing
        pytest.skip(f"no nodes of a Swarm here: {', '.join(missing)}")

"""A stack on a real Ray cluster of three raylets: collected from, scaled, restarted, and a node lost in mid-run."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.ray_cluster import Raylets, ray_environment

pytestmark = pytest.mark.long  # Ray is a wheel of 79 MB, and three nodes of it start
TIMEOUT = 1200.0
REPLICAS = ("mcqa=2", "mcqa_simple_agent=2", "policy_model=2")
SLOWLY = "policy_model.responses_api_models.scripted.latency_seconds=0.3"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raylets]:
    found = Raylets(ray_environment(tmp_path_factory.mktemp("ray") / "env"))
    try:
        found.start(3)
        yield found
    finally:
        found.stop()


class Desk:
    """A folder in which commands are typed."""

    def __init__(self, cluster: Raylets, folder: Path) -> None:
        self._cluster, self.folder = cluster, folder

    def gym(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [self._cluster.gym, *words],
            cwd=self.folder,
            env=self._cluster.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def spawn(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "spawned.log").open("wb") as log:
            return subprocess.Popen(
                [self._cluster.gym, *words], cwd=self.folder, env=self._cluster.env, stdout=log, stderr=log
            )

    def states(self) -> dict[str, str]:
        shown = json.loads(self.gym("ps", "--json", check=False).stdout)
        return {one["replica"]: one["state"] for one in shown["replicas"]}


def rewards(path: Path) -> dict[tuple[Any, ...], float]:
    """By what tells rollouts apart; a key that is there twice is an error."""
    found: dict[tuple[Any, ...], float] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        key = (row["_ng_task_index"], row["_ng_rollout_index"])
        assert key not in found
        found[key] = row["reward"]
    return found


def until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_run_outlives_a_node_and_nothing_is_left_of_the_stack(cluster: Raylets, tmp_path: Path) -> None:
    desk = Desk(cluster, tmp_path)
    replicas = [word for one in REPLICAS for word in ("--replicas", one)]
    desk.gym("up", "mcqa", "--model", "scripted", "--on", "ray", "--port", "0", *replicas, SLOWLY, "--timeout", "900")
    assert set(desk.states().values()) == {"healthy"}
    desk.gym("rollouts", "mcqa", "-o", "whole.jsonl", "--repeats", "20", "--concurrency", "16")

    run = desk.spawn("rollouts", "mcqa", "-o", "disturbed.jsonl", "--repeats", "20", "--concurrency", "16")
    disturbed = tmp_path / "disturbed.jsonl"
    until(lambda: disturbed.is_file() and len(disturbed.read_text().splitlines()) >= 10)
    cluster.kill_node(3)
    assert run.wait(TIMEOUT) == 0, (tmp_path / "spawned.log").read_text()
    assert rewards(disturbed) == rewards(tmp_path / "whole.jsonl")
    until(lambda: set(desk.states().values()) == {"healthy"})

    desk.gym("scale", "mcqa=3")
    assert "mcqa-3" in desk.states()
    desk.gym("scale", "mcqa=1")
    assert "mcqa-3" not in desk.states()
    desk.gym("restart", "mcqa")
    assert set(desk.states().values()) == {"healthy"}
    assert "mcqa-1" in desk.gym("logs", "mcqa").stdout
    desk.gym("down")
    assert desk.gym("ps", check=False).returncode == 1
    until(lambda: not [line for _, line in cluster.processes() if "gym.runtime.ray_cluster" in line])

"""Stacks on a real Ray cluster of three raylets: nodes, keeper and router lost in mid-run, and every command."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.ray_cluster import ROOT, WITHIN_SECONDS, Desk, Raylets, parent_of, ray_environment, until
from tests.support.router_pages import check_pages

pytestmark = pytest.mark.long  # Ray is a wheel of 79 MB, and three nodes of it start
UP = ("up", "mcqa", "--model", "scripted", "--port", "0", "--timeout", "900")
TWO_OF_EACH = ("mcqa=2", "mcqa_simple_agent=2", "policy_model=2")
LATENCY = "policy_model.responses_api_models.scripted.latency_seconds"
COLLECT = ("rollouts", "mcqa", "--concurrency")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raylets]:
    found = Raylets(ray_environment(tmp_path_factory.mktemp("ray") / "env"))
    try:
        found.start(3)
        yield found
    finally:
        found.stop()


@pytest.fixture
def desk(cluster: Raylets, tmp_path: Path) -> Desk:
    return Desk(cluster.gym, cluster.env, tmp_path)


def test_a_killed_keeper_and_a_killed_router_cost_no_rollout(cluster: Raylets, desk: Desk) -> None:
    desk.gym(*UP, "--on", "ray", *(word for one in TWO_OF_EACH for word in ("--replicas", one)), f"{LATENCY}=1")
    desk.gym(*COLLECT, "64", "-o", "whole.jsonl", "--repeats", "200")

    def keeper() -> int:
        return cluster.worker("StackKeeper")

    def router() -> int:
        return int(desk.replicas()["router"]["pid"] or 0)  # none while it starts

    def actor_of_router() -> int:
        """The router's process is a child of the one beside the actor."""
        pid = router()
        return parent_of(parent_of(pid)) if pid else 0

    run = desk.spawn("run.log", *COLLECT, "16", "-o", "disturbed.jsonl", "--repeats", "200", "--max-attempts", "20")
    for number, find in enumerate((keeper, router, actor_of_router), 1):
        until(lambda done=100 * number: desk.lines("disturbed.jsonl") >= done)  # type: ignore[misc]
        assert run.poll() is None, (desk.folder / "run.log").read_text()
        _kill_and_wait(find, desk)
    assert run.wait(WITHIN_SECONDS) == 0, (desk.folder / "run.log").read_text()
    assert len(desk.rewards("whole.jsonl")) == 1000
    assert desk.rewards("disturbed.jsonl") == desk.rewards("whole.jsonl")
    desk.gym("down")
    _check_nothing_left(cluster)


def test_a_stack_is_looked_into_and_ended_from_any_shell(cluster: Raylets, desk: Desk, tmp_path: Path) -> None:
    desk.gym(*UP, "--on", "ray")
    listed = json.loads(desk.gym("ls", "--json"))
    assert [(one["runtime"], one["state"], one["folder"]) for one in listed] == [("ray", "healthy", str(tmp_path))]
    check_pages(json.loads(desk.gym("ps", "--json"))["router"], {"mcqa", "mcqa_simple_agent", "policy_model"})
    assert desk.gym("exec", "mcqa", "--", "sh", "-c", "echo $NEMO_GYM_CONFIG_PATH") == "mcqa\n"
    desk.gym("exec", "mcqa", "--", "sh", "-c", "exit 7", code=7)

    following = desk.spawn("followed.log", "logs", "-f", "mcqa")
    followed = tmp_path / "followed.log"
    until(lambda: "mcqa is ready" in followed.read_text())
    desk.gym("scale", "mcqa=2")
    until(lambda: "mcqa-2 | " in followed.read_text())
    following.send_signal(signal.SIGINT)
    assert following.wait(60) == 130

    elsewhere = Desk(cluster.gym, {key: value for key, value in desk.env.items() if key != "RAY_ADDRESS"}, Path("/"))
    shutil.rmtree(tmp_path / ".gym")
    (lost,) = json.loads(elsewhere.gym("ls", "--json"))
    assert (lost["runtime"], lost["lost"], lost["folder"]) == ("ray", True, str(tmp_path))
    assert f"gym down --stack gym --folder {tmp_path}" in elsewhere.gym("doctor", code=None)
    elsewhere.gym("down", "--all")
    assert json.loads(elsewhere.gym("ls", "--json")) == []
    desk.gym("ps", code=1)
    _check_nothing_left(cluster)


def test_a_server_that_ends_at_each_start_is_named_and_comes_up_once_it_is_fixed(
    cluster: Raylets, desk: Desk, tmp_path: Path
) -> None:
    desk.gym("new", "resources", "letters")
    app = tmp_path / "letters" / "app.py"
    good, up = app.read_text(), ("up", "letters", *UP[2:], "--on", "ray")
    app.write_text(f"{good}raise SystemExit('it cannot start')\n")
    refused = desk.fails(*up)
    assert re.search(r"letters-1: ended [3-9] times while it started", refused), refused
    assert "it cannot start" in refused
    desk.gym("scale", "policy_model=2")  # what was unhealthy before is not waited for
    desk.gym("restart", "policy_model", "letters_simple_agent")
    app.write_text(good)
    desk.gym(*up)
    assert desk.is_healthy()
    desk.gym("down")
    _check_nothing_left(cluster)


def test_through_rays_client_port_the_words_are_the_same(cluster: Raylets, desk: Desk, tmp_path: Path) -> None:
    del desk.env["RAY_ADDRESS"]
    (tmp_path / "token").write_text("a-token-that-is-long-enough-for-a-router")
    desk.gym(*UP, "--on", cluster.client_address, "--bind", "0.0.0.0", "--token-file", "token")
    assert desk.is_healthy()
    desk.env["GYM_TOKEN"] = (tmp_path / "token").read_text()
    desk.gym(*COLLECT, "16", "-o", "out.jsonl", "--repeats", "2")
    assert len(desk.rewards("out.jsonl")) == 10
    assert "mcqa is ready" in desk.gym("logs", "mcqa")
    assert desk.gym("exec", "mcqa", "--", "sh", "-c", "echo $NEMO_GYM_CONFIG_PATH") == "mcqa\n"
    desk.gym("scale", "mcqa=2")
    desk.gym("restart", "mcqa")
    assert desk.is_healthy()
    assert [one["runtime"] for one in json.loads(desk.gym("ls", "--json"))] == ["ray"]
    desk.gym("down", "--all")
    _check_nothing_left(cluster)


def test_inside_the_job_of_a_trainer_a_task_starts_a_stack_and_an_actor_collects_from_it(
    cluster: Raylets, tmp_path: Path
) -> None:
    rows = (ROOT / "servers/resources/mcqa/data/example.jsonl").read_text()
    (tmp_path / "rows.jsonl").write_text(rows)
    env = {**cluster.env, "TRAINER_TEMP": str(cluster.folder / "trainer")}
    del env["RAY_ADDRESS"]
    trainer = (cluster.python, str(ROOT / "tests/support/ray_trainer.py"), cluster.gym, str(tmp_path))
    done = subprocess.run(trainer, env=env, capture_output=True, text=True, timeout=WITHIN_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["states"] == ["healthy"]
    assert len(seen["rewards"]) == len(rows.splitlines())
    assert seen["left"] == []


def test_a_run_outlives_a_node_and_nothing_is_left_of_the_stack(cluster: Raylets, desk: Desk) -> None:
    desk.gym(*UP, "--on", "ray", *(word for one in TWO_OF_EACH for word in ("--replicas", one)), f"{LATENCY}=0.3")
    assert desk.is_healthy()
    desk.gym(*COLLECT, "16", "-o", "whole.jsonl", "--repeats", "20")

    run = desk.spawn("run.log", *COLLECT, "16", "-o", "disturbed.jsonl", "--repeats", "20")
    until(lambda: desk.lines("disturbed.jsonl") >= 10)
    cluster.kill_node(3)
    assert run.wait(WITHIN_SECONDS) == 0, (desk.folder / "run.log").read_text()
    assert desk.rewards("disturbed.jsonl") == desk.rewards("whole.jsonl")
    until(desk.is_healthy)

    desk.gym("scale", "mcqa=3")
    assert "mcqa-3" in desk.replicas()
    desk.gym("scale", "mcqa=1")
    assert "mcqa-3" not in desk.replicas()
    desk.gym("restart", "mcqa")
    assert desk.is_healthy()
    assert "mcqa-1" in desk.gym("logs", "mcqa")
    desk.gym("down")
    desk.gym("ps", code=1)
    _check_nothing_left(cluster)


def _kill_and_wait(find: Callable[[], int], desk: Desk) -> None:
    """Until another process has its place, and all is healthy."""
    lost = find()
    assert lost
    os.kill(lost, signal.SIGKILL)
    until(lambda: desk.is_healthy() and find() not in (0, lost))


def _check_nothing_left(cluster: Raylets) -> None:
    until(lambda: not [line for _, line in cluster.processes() if "gym.runtime.ray_cluster" in line])

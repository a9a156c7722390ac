"""Where replicas land on a real Ray cluster: GPUs, resources with names of our own, placement groups, a lost node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.ray_cluster import WITHIN_SECONDS, Desk, Raylets, ray_environment, until

pytestmark = pytest.mark.long  # as test_ray_cluster.py
HAS = {2: ("--num-gpus=1",), 3: ("--num-gpus=1", '--resources={"big": 1}')}  # Ray believes these numbers
UP = ("up", "mcqa", "--model", "scripted", "--port", "0", "--on", "ray", "--timeout", "900")
COLLECT = ("rollouts", "mcqa", "--concurrency", "8", "--repeats", "2", "-o")
GPU, BIG, AGENT_GPU = "++mcqa.gpus=1", "++mcqa.ray.resources.big=1", "++mcqa_simple_agent.gpus=1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raylets]:
    found = Raylets(ray_environment(tmp_path_factory.mktemp("ray") / "env"))
    try:
        found.start(3, HAS)
        yield found
    finally:
        found.stop()


@pytest.fixture
def desk(cluster: Raylets, tmp_path: Path) -> Iterator[Desk]:
    found = Desk(cluster.gym, cluster.env, tmp_path)
    yield found
    found.gym("down")


def test_a_server_that_asks_for_a_gpu_lands_where_one_is_and_sees_it_alone(cluster: Raylets, desk: Desk) -> None:
    desk.gym(*UP, GPU, BIG)
    assert _nodes(cluster, desk, "mcqa") == {3}
    assert _seen_gpus(cluster, desk, "mcqa") == ["0"]
    assert _seen_gpus(cluster, desk, "mcqa_simple_agent") == [""]
    said = desk.fails("scale", "mcqa=2")
    assert (
        "mcqa has 2 replicas that ask for CPU 0.1, GPU 1, big 1 each, and the nodes of the cluster have room for 1"
        in said
    )
    assert desk.is_healthy()


def test_one_gpu_too_many_is_said_before_and_a_busy_one_while_it_is_waited_for(
    cluster: Raylets, desk: Desk, tmp_path: Path
) -> None:
    said = desk.fails(*UP, GPU, "++mcqa.replicas=3")
    assert "the nodes of the cluster have room for 2" in said
    said = desk.fails(*UP, GPU, "++mcqa.replicas=2", AGENT_GPU)
    assert "the rest of the stack ask for GPU 3" in said
    assert "and the cluster has GPU 2" in said
    desk.gym(*UP, GPU, "++mcqa.replicas=2")
    assert _nodes(cluster, desk, "mcqa") == {2, 3}

    (tmp_path / "other").mkdir()
    other = Desk(cluster.gym, cluster.env, tmp_path / "other")
    said = other.fails(*UP[:-1], "20", GPU)
    assert "Ray has not placed it yet: it asks for CPU 0.1, GPU 1, free now GPU 0" in said
    assert "free now GPU 0" in _of(other, "mcqa")[0]["detail"]
    desk.gym("scale", "mcqa=1")
    until(other.is_healthy)
    other.gym("down")


def test_a_strategy_gives_the_replicas_a_placement_group_of_their_own(cluster: Raylets, desk: Desk) -> None:
    said = desk.fails(*UP, "++mcqa.replicas=4", "++mcqa.ray.strategy=STRICT_SPREAD")
    assert "on a node of its own (STRICT_SPREAD), and only 3 nodes have that" in said
    said = desk.fails(*UP, "++mcqa.replicas=3", "++mcqa.cpus=1", "++mcqa.ray.strategy=STRICT_PACK")
    assert "all on one node (STRICT_PACK), and no node has room for more than 2" in said

    strict = ("++mcqa.ray.strategy=STRICT_SPREAD", "++policy_model.ray.strategy=STRICT_PACK")
    desk.gym(*UP, "++mcqa.replicas=3", "++policy_model.replicas=3", *strict)
    assert _nodes(cluster, desk, "mcqa") == {1, 2, 3}
    assert len(_nodes(cluster, desk, "policy_model")) == 1
    assert len(cluster.groups()) == 2
    assert "Ray changes neither" in desk.fails("scale", "mcqa=2")
    desk.gym("scale", "mcqa=3")
    desk.gym("restart", "mcqa")
    assert _nodes(cluster, desk, "mcqa") == {1, 2, 3}

    desk.gym(*UP, "++mcqa.replicas=3", "++policy_model.replicas=3", strict[0])
    until(lambda: len(cluster.groups()) == 1)
    assert desk.is_healthy()
    desk.gym("down")
    until(lambda: cluster.groups() == [])


def test_a_group_of_a_trainer_is_used_by_its_name(cluster: Raylets, desk: Desk) -> None:
    assert "no placement group `trainer`" in desk.fails(*UP, "++mcqa.ray.placement_group=trainer")
    with cluster.group("trainer", [{"CPU": 0.5}, {"CPU": 0.5, "GPU": 1, "big": 1}]):
        desk.gym(*UP, GPU, "++mcqa.ray.placement_group=trainer", "++mcqa.ray.bundle=1")
        assert _nodes(cluster, desk, "mcqa") == {3}
        assert _seen_gpus(cluster, desk, "mcqa") == ["0"]
        desk.gym("down")


def test_a_cluster_that_loses_its_gpus_says_so_and_goes_on_when_one_is_back(cluster: Raylets, desk: Desk) -> None:
    desk.gym(*UP, GPU, BIG, "++mcqa_simple_agent.replicas=3", "++mcqa_simple_agent.ray.strategy=STRICT_SPREAD")
    desk.gym(*COLLECT, "whole.jsonl")
    cluster.kill_node(3)
    until(lambda: "no node of the cluster has that: the most is" in _of(desk, "mcqa")[0]["detail"])
    assert "big 0" in _of(desk, "mcqa")[0]["detail"]
    until(lambda: any("(STRICT_SPREAD), and only 2 nodes" in one["detail"] for one in _of(desk, "mcqa_simple_agent")))
    run = desk.spawn("run.log", *COLLECT, "late.jsonl", "--max-attempts", "20")
    cluster.join(3)
    until(desk.is_healthy)
    assert run.wait(WITHIN_SECONDS) == 0, (desk.folder / "run.log").read_text()
    assert desk.rewards("late.jsonl") == desk.rewards("whole.jsonl")
    assert _nodes(cluster, desk, "mcqa") == {3}


def _of(desk: Desk, instance: str) -> list[dict[str, Any]]:
    return [one for one in desk.replicas().values() if one["instance"] == instance]


def _nodes(cluster: Raylets, desk: Desk, instance: str) -> set[int]:
    return {cluster.node_of(one["pid"]) for one in _of(desk, instance)}


def _seen_gpus(cluster: Raylets, desk: Desk, instance: str) -> list[str]:
    return [cluster.variable(one["pid"], "CUDA_VISIBLE_DEVICES") for one in _of(desk, instance)]

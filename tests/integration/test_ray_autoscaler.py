"""A stack on a Ray cluster that grows: nodes that are not there yet are asked for and waited for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ray_cluster import Desk, Raylets, ray_environment, until

pytestmark = pytest.mark.long  # as test_ray_cluster.py
UP = ("up", "mcqa", "--model", "scripted", "--port", "0", "--on", "ray", "--timeout")
BIG = {"resources": {"CPU": 1, "big": 1}, "node_config": {}, "min_workers": 0, "max_workers": 2}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raylets]:
    found = Raylets(ray_environment(tmp_path_factory.mktemp("ray") / "env"))
    try:
        found.start_growing({"big": BIG})
        yield found
    finally:
        found.stop()


@pytest.fixture
def desk(cluster: Raylets, tmp_path: Path) -> Iterator[Desk]:
    found = Desk(cluster.gym, cluster.env, tmp_path)
    yield found
    found.gym("down")


def test_what_no_node_has_yet_is_asked_for_and_waited_for(cluster: Raylets, desk: Desk) -> None:
    assert cluster.nodes() == 1
    desk.gym(*UP, "900", "++mcqa.ray.resources.big=1")
    assert cluster.nodes() == 2
    assert desk.is_healthy()
    desk.gym("rollouts", "mcqa", "-o", "out.jsonl", "--repeats", "2")
    assert len(desk.rewards("out.jsonl")) == 10
    desk.gym("scale", "mcqa=2")
    assert cluster.nodes() == 3
    assert desk.is_healthy()


def test_what_no_type_of_node_has_is_said_when_the_time_is_over(desk: Desk) -> None:
    said = desk.fails(*UP, "20", "++mcqa.ray.resources.small=1")
    assert "not healthy after 20 s" in said
    assert "mcqa asks for CPU 0.1, small 1, and no node of the cluster has that" in said
    assert "Ray's autoscaler is asked for one" in said
    until(lambda: desk.replicas()["policy-model-1"]["state"] == "healthy")

"""What is said where there is no Ray, no cluster, another version or no room."""

from __future__ import annotations

import socket
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from gym.errors import InfraError, UserError
from gym.runtime.ray_cluster.cluster import check_room, connect_ray, explain_refusal, group_ids, import_ray

PYTHONS = """Version mismatch: The cluster was started with:
    Ray: 2.60.0
    Python: 3.12.1
This process was started with:
    Ray: 2.60.0
    Python: 3.11.7"""
NODES = [
    {"Alive": True, "Resources": {"CPU": 4.0, "memory": 8e9}},
    {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}},
]


def order(asks: dict[str, float], **options: Any) -> dict[str, Any]:
    return {"id": "judge-1", "instance": "judge", "asks": asks, "options": options}


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"compose-gym\[ray\]"):
        import_ray()


def test_a_cluster_that_is_not_there_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it does not listen
        with pytest.raises(InfraError, match="ray start --head"):
            connect_ray(f"ray://127.0.0.1:{taken.getsockname()[1]}")


def test_a_process_that_is_in_a_cluster_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = SimpleNamespace(
        is_initialized=lambda: True, get_runtime_context=lambda: SimpleNamespace(namespace="trainer")
    )
    monkeypatch.setitem(sys.modules, "ray", joined)
    assert connect_ray("ray://127.0.0.1:9") is joined


def test_a_command_goes_from_one_cluster_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = SimpleNamespace(namespace="", is_initialized=lambda: True, shutdown=lambda: None)
    joined.get_runtime_context = lambda: joined
    joined.init = lambda *, namespace, **_: setattr(joined, "namespace", namespace)
    monkeypatch.setitem(sys.modules, "ray", joined)
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        for one in (first, second):
            where = f"127.0.0.1:{one.getsockname()[1]}"
            joined.namespace = joined.namespace or "gym at 10.0.0.9:6379"
            assert connect_ray(where) is joined
            assert joined.namespace == f"gym at {where}"


def test_another_python_is_explained_with_the_way_out() -> None:
    error = explain_refusal(PYTHONS, "auto")
    assert "3.12.1" in error.what
    assert "uv venv --python" in str(error)


def test_a_token_that_is_missing_is_explained() -> None:
    error = explain_refusal("AuthenticationError: InvalidAuthToken: Authentication token is missing", "head:6379")
    assert "RAY_AUTH_TOKEN_PATH" in str(error)


def cluster_with(autoscaler_status: bytes) -> Any:
    """Its nodes, and what its autoscaler says of itself in Ray's store."""
    store = {b"__autoscaling_status": autoscaler_status}
    kv = SimpleNamespace(_internal_kv_get=lambda key, namespace=None: store.get(key))
    return SimpleNamespace(nodes=lambda: NODES, experimental=SimpleNamespace(internal_kv=kv))


def test_what_no_living_node_has_is_refused_with_the_most_there_is() -> None:
    ray = cluster_with(b"")
    assert not check_room(ray, [order({"CPU": 4})])
    with pytest.raises(UserError, match=r"GPU 1, and no node .* the most is GPU 0"):
        check_room(ray, [order({"GPU": 1})])
    assert not check_room(ray, [order({"GPU": 1}, placement_group={"id": "ab", "bundle": -1})])


def test_a_cluster_that_adds_nodes_is_not_refused_what_none_has_yet() -> None:
    ray = cluster_with(b'{"autoscaler_report": {"node_type_mapping": {"ab12": "ray.head.default"}}}')
    assert check_room(ray, [order({"GPU": 1})])
    assert not check_room(ray, [order({"CPU": 4})])


def test_a_placement_group_is_found_by_its_name() -> None:
    table = {"ab12": {"name": "trainer", "state": "CREATED"}, "cd": {"name": "old", "state": "REMOVED"}}
    ray = SimpleNamespace(util=SimpleNamespace(placement_group_table=lambda: table))
    assert group_ids(ray, {"trainer"}) == {"trainer": "ab12"}
    with pytest.raises(UserError, match=r"no placement group `old` \(there: trainer\)"):
        group_ids(ray, {"old"})

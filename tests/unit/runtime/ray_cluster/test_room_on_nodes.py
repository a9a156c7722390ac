"""What a cluster lacks is said in whole: a kind of node, places for all replicas, or enough for all instances."""

from __future__ import annotations

from typing import Any

import pytest

from gym.runtime.ray_cluster.room_on_nodes import group_name, grows, missing_room, why_it_waits

NODES = [{"CPU": 2.0}, {"CPU": 2.0, "GPU": 1.0}, {"CPU": 2.0, "GPU": 1.0, "big": 1.0}]


def orders(instance: str, count: int, asks: dict[str, float], **options: Any) -> list[dict[str, Any]]:
    return [{"instance": instance, "asks": asks, "options": options}] * count


def grouped(strategy: str, count: int) -> dict[str, Any]:
    return {"own_group": {"strategy": strategy, "count": count}}


def test_what_fits_is_missing_nothing() -> None:
    assert missing_room(orders("mcqa", 60, {"CPU": 0.1}), NODES) == ("", "")
    assert missing_room(orders("judge", 2, {"CPU": 1, "GPU": 1}), NODES) == ("", "")
    assert missing_room(orders("mcqa", 3, {"CPU": 2}, **grouped("STRICT_SPREAD", 3)), NODES) == ("", "")
    assert missing_room(orders("mcqa", 9, {"GPU": 8}, placement_group={"id": "ab", "bundle": 0}), NODES) == ("", "")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (orders("judge", 1, {"GPU": 2}), "asks for GPU 2, and no node of the cluster has that: the most is GPU 1"),
        (orders("judge", 3, {"GPU": 1}), "the nodes of the cluster have room for 2"),
        (orders("mcqa", 61, {"CPU": 0.1}), "the nodes of the cluster have room for 60"),
        (orders("mcqa", 4, {"CPU": 0.1}, **grouped("STRICT_SPREAD", 4)), "only 3 nodes have that"),
        (orders("mcqa", 2, {"big": 0.5}, **grouped("STRICT_SPREAD", 2)), "one node alone has that"),
        (orders("mcqa", 3, {"CPU": 1}, **grouped("STRICT_PACK", 3)), "no node has room for more than 2"),
    ],
)
def test_what_does_not_fit_is_said(wanted: list[dict[str, Any]], said: str) -> None:
    instance, missing = missing_room(wanted, NODES)
    assert instance == wanted[0]["instance"]
    assert said in missing


def test_instances_that_fit_each_and_not_together_are_named_with_their_shares() -> None:
    instance, missing = missing_room([*orders("judge", 1, {"GPU": 1}), *orders("policy", 2, {"GPU": 1})], NODES)
    assert instance == "policy"
    assert missing == "and the rest of the stack ask for GPU 3 (judge 1, policy 2), and the cluster has GPU 2"


def test_one_that_waits_says_whether_it_waits_for_room_or_for_a_node() -> None:
    order = orders("judge", 1, {"CPU": 0.1, "GPU": 1})[0]
    assert why_it_waits(order, NODES, {"CPU": 3}).endswith("it asks for CPU 0.1, GPU 1, free now GPU 0")
    assert why_it_waits(order, NODES, {"CPU": 3, "GPU": 1}).endswith("no node has all of that free")
    assert why_it_waits(order, NODES[:1], {"CPU": 3}).endswith(
        "the most is CPU 2, GPU 0: it starts when such a node joins"
    )
    assert why_it_waits(order, NODES[:1], {"CPU": 3}, growing=True).endswith("Ray's autoscaler is asked for one")


@pytest.mark.parametrize(
    ("stored", "growing"),
    [
        ({}, False),
        ({"__autoscaling_status": '{"autoscaler_report": {}}'}, False),
        ({"__autoscaling_status": '{"autoscaler_report": {"node_type_mapping": {"ab": "node_ab"}}}'}, False),
        ({"__autoscaling_status": '{"autoscaler_report": {"node_type_mapping": {"ab": "gpu_node"}}}'}, True),
        ({"__autoscaler_v2_enabled": "0"}, False),
        ({"__autoscaler_v2_enabled": "1"}, True),
    ],
)
def test_an_autoscaler_that_has_types_of_nodes_differs_from_one_that_only_counts(
    stored: dict[str, str], growing: bool
) -> None:
    def get(key: bytes, namespace: bytes | None = None) -> bytes | None:
        assert (namespace == b"__autoscaler") is key.startswith(b"__autoscaler_")
        found = stored.get(key.decode())
        return found.encode() if found else None

    assert grows(get) is growing


def test_another_number_or_size_is_another_group() -> None:
    facts = {"instance": "mcqa", "strategy": "PACK", "count": 2, "asks": {"CPU": 1}, "bundle": 0}
    assert group_name("gym", facts) == group_name("gym", {**facts, "bundle": 1})
    assert len({group_name("gym", {**facts, **one}) for one in ({}, {"count": 3}, {"strategy": "SPREAD"})}) == 3

"""Where the nodes of a cluster have room for replicas, what is missing where they have none, and groups of our own.

Runs in Ray's own Python, too, into which it is sent by value: the standard library is all that it may import.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

GONE = "REMOVED"
AUTOSCALER_STATUS = b"__autoscaling_status"  # in Ray's own store, of its first autoscaler
AUTOSCALER_2, AUTOSCALER_2_SPACE = b"__autoscaler_v2_enabled", b"__autoscaler"
ROUNDING = 1e-6  # of amounts such as 0.1, which are added

Amounts = Mapping[str, float]
Order = Mapping[str, Any]


def missing_room(orders: Sequence[Order], nodes: Sequence[Amounts]) -> tuple[str, str]:
    """An instance, and what its replicas lack though nothing else ran on the cluster; two empty texts of a fit."""
    by_instance: dict[str, list[Order]] = defaultdict(list)
    for order in orders:
        if "placement_group" not in order["options"]:  # a group that is there already has its room
            by_instance[order["instance"]].append(order)
    for instance, those in by_instance.items():
        strategy = those[0]["options"].get("own_group", {}).get("strategy", "")
        if missing := missing_places(those[0]["asks"], len(those), strategy, nodes):
            return instance, missing
    return _missing_in_all(by_instance, nodes)


def missing_places(asked: Amounts, count: int, strategy: str, nodes: Sequence[Amounts]) -> str:
    """Why equal replicas of one instance can never all be placed; "" where they can."""
    places = [_places(asked, one) for one in nodes]
    if not any(places):
        largest = {key: max((one.get(key, 0) for one in nodes), default=0) for key in asked}
        return f"asks for {amounts(asked)}, and no node of the cluster has that: the most is {amounts(largest)}"
    each = f"has {count} replicas that ask for {amounts(asked)} each"
    if strategy == "STRICT_SPREAD" and (there := sum(map(bool, places))) < count:
        return f"{each}, on a node of its own (STRICT_SPREAD), and {_nodes_have(there)} that"
    if strategy == "STRICT_PACK" and max(places) < count:
        return f"{each}, all on one node (STRICT_PACK), and no node has room for more than {max(places)}"
    if sum(places) < count:
        return f"{each}, and the nodes of the cluster have room for {sum(places)}"
    return ""


def why_it_waits(order: Order, nodes: Sequence[Amounts], free: Amounts, *, growing: bool = False) -> str:
    """Of a replica that Ray has not placed: what would have to be free, or to be there at all."""
    if never := what_no_node_has(order, nodes, growing=growing):
        return never
    asked = order["asks"]
    short = {key: amount for key, amount in asked.items() if free.get(key, 0) + ROUNDING < amount}
    if short:
        now = {key: round(free.get(key, 0), 2) for key in short}
        return f"Ray has not placed it yet: it asks for {amounts(asked)}, free now {amounts(now)}"
    return f"Ray has not placed it yet: it asks for {amounts(asked)}, and no node has all of that free"


def what_no_node_has(order: Order, nodes: Sequence[Amounts], *, growing: bool = False) -> str:
    """After a node was lost, or before one was added; "" where Ray can place it."""
    group = order["options"].get("own_group", {})
    never = missing_places(order["asks"], group.get("count", 1), group.get("strategy", ""), nodes)
    alone = "placement_group" not in order["options"]
    starts = "Ray's autoscaler is asked for one" if growing else "it starts when such a node joins"
    return f"{order['instance']} {never}: {starts}" if never and alone else ""


def amounts(found: Amounts) -> str:
    return ", ".join(f"{key} {value:g}" for key, value in found.items())


def grows(get: Callable[..., bytes | None]) -> bool:
    """Whether the cluster adds nodes for what waits. `get` reads Ray's own store.

    A cluster that was put together by hand has an autoscaler, too, which only counts: each node is a type of its own.
    """
    if get(AUTOSCALER_2, namespace=AUTOSCALER_2_SPACE) == b"1":
        return True
    status = json.loads(get(AUTOSCALER_STATUS) or b"{}")
    types = (status.get("autoscaler_report") or {}).get("node_type_mapping") or {}
    return any(type != f"node_{node}" for node, type in types.items())


# Placement groups that the stack makes


def own_group(ray: Any, namespace: str, wanted: Mapping[str, Any]) -> str:
    """The id of the group with a bundle for each replica, made where there is none. Ray moves what a lost node had."""
    name = group_name(namespace, wanted)
    known = [id for id, one in ray.util.placement_group_table().items() if one["name"] == name and one["state"] != GONE]
    if known:
        return str(known[0])
    bundles = [dict(wanted["asks"]) for _ in range(wanted["count"])]
    made = ray.util.placement_group(bundles, strategy=wanted["strategy"], name=name, lifetime="detached")
    return str(made.id.hex())


def in_group(ray: Any, id: str, bundle: int) -> Any:
    """How Ray is asked to make an actor in that bundle of the group."""
    from ray.util.placement_group import PlacementGroup  # noqa: PLC0415 (Ray's Python alone has it)
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy  # noqa: PLC0415

    group = PlacementGroup(ray.PlacementGroupID(bytes.fromhex(id)))
    return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)


def remove_groups(ray: Any, namespace: str, keep: Iterable[str] = ()) -> None:
    """Whatever still runs in one ends."""
    from ray.util.placement_group import PlacementGroup  # noqa: PLC0415 (as above)

    kept = set(keep)
    for id, one in ray.util.placement_group_table().items():
        name = one["name"]
        if name.startswith(f"{namespace}/") and name not in kept and one["state"] != GONE:
            ray.util.remove_placement_group(PlacementGroup(ray.PlacementGroupID(bytes.fromhex(id))))


def group_name(namespace: str, wanted: Mapping[str, Any]) -> str:
    """Another strategy, number or size is another group: Ray changes none."""
    facts = json.dumps([wanted[key] for key in ("strategy", "count", "asks")], sort_keys=True)
    return f"{namespace}/{wanted['instance']}/{hashlib.sha256(facts.encode()).hexdigest()[:8]}"


def _places(asked: Amounts, node: Amounts) -> int:
    return int(min((node.get(key, 0) / amount + ROUNDING for key, amount in asked.items() if amount), default=1 << 20))


def _nodes_have(count: int) -> str:
    return "one node alone has" if count == 1 else f"only {count} nodes have"


def _missing_in_all(by_instance: Mapping[str, Sequence[Order]], nodes: Sequence[Amounts]) -> tuple[str, str]:
    """What each instance has room for, all of them together may not."""
    wanted: dict[str, dict[str, float]] = defaultdict(dict)
    for instance, those in by_instance.items():
        for key, amount in those[0]["asks"].items():
            wanted[key][instance] = amount * len(those)
    for key, shares in wanted.items():
        there = sum(one.get(key, 0) for one in nodes)
        if sum(shares.values()) > there + ROUNDING:
            largest = max(shares, key=lambda one: shares[one])
            parts = ", ".join(f"{name} {amount:g}" for name, amount in shares.items())
            asked = f"{key} {sum(shares.values()):g} ({parts})"
            return largest, f"and the rest of the stack ask for {asked}, and the cluster has {key} {there:g}"
    return "", ""

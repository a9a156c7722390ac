"""The connection to a Ray cluster: that of this process where it has one, else the one that was named or runs here."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from typing import Any, Final

from gym.errors import InfraError, UserError
from gym.runtime.ray_cluster.room_on_nodes import grows, missing_room

INSTALL: Final = "Install it beside gym, at the version of the cluster: pip install 'compose-gym[ray]'"
CONNECT_SECONDS: Final = 5.0
JOINED_BY_US: Final = "gym at "  # the namespace of our own connections, with the address


def connect_ray(address: str = "") -> Any:
    """The module `ray`, connected. A process that is in a cluster already, such as a trainer, stays in that one."""
    ray = import_ray()
    where = address or os.environ.get("RAY_ADDRESS", "auto")
    if ray.is_initialized():
        joined = str(ray.get_runtime_context().namespace)
        if not joined.startswith(JOINED_BY_US) or joined == f"{JOINED_BY_US}{where}":
            return ray
        ray.shutdown()  # of a command that looks after stacks on several clusters
    check_reachable(where)
    own = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    try:
        ray.init(address=where, namespace=f"{JOINED_BY_US}{where}", **own)
    except (ConnectionError, TimeoutError) as error:
        raise _no_cluster(where) from error
    except (RuntimeError, ray.exceptions.RayError) as error:
        raise explain_refusal(str(error), where) from error
    return ray


def import_ray() -> Any:
    if "ray" not in sys.modules:  # a command of ours, and no trainer: Ray would print of lost nodes on standard output
        os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    try:
        import ray  # noqa: PLC0415 (only a stack on Ray needs it)
    except ImportError as error:
        raise UserError(f"--on ray needs the package ray, which is not installed here ({error}).", INSTALL) from error
    return ray


def explain_refusal(words: str, where: str) -> UserError:
    """Ray compares versions itself, and refuses what does not fit."""
    facts = " ".join(words.split())
    if "ersion" in facts and ("ismatch" in facts or "differ" in facts or "compatible" in facts):
        return UserError(
            f"the Ray cluster at {where} refuses this Python: {facts}",
            "Run gym in an environment with the Python and the Ray of the cluster: uv venv --python 3.X, then"
            " uv pip install 'compose-gym[ray]' ray==VERSION",
        )
    if "oken" in facts and "uthenticat" in facts:
        return UserError(
            f"the Ray cluster at {where} asks for a token, and this machine shows none that it knows.",
            "Take the cluster's: RAY_AUTH_MODE=token, and its file in RAY_AUTH_TOKEN_PATH",
        )
    return UserError(f"no connection to the Ray cluster at {where}: {facts}", "How it is: ray status")


def check_room(ray: Any, orders: list[dict[str, Any]]) -> bool:
    """True where the cluster's autoscaler has to add nodes. Without one, an actor that the nodes could never hold would
    wait for ever. What is busy now is only waited for, and said."""
    instance, missing = missing_room(orders, [one["Resources"] for one in ray.nodes() if one["Alive"]])
    if not missing:
        return False
    if grows(ray.experimental.internal_kv._internal_kv_get):
        return True
    raise UserError(
        f"{instance} {missing}.",
        f"Ask for less (`cpus`, `memory`, `gpus`, `replicas`, `ray:` of {instance}), or add a node:"
        " ray start --address=HEAD:6379",
    )


def group_ids(ray: Any, names: set[str]) -> dict[str, str]:
    """Of placement groups that others made: a trainer, for one."""
    found = {one["name"]: id for id, one in ray.util.placement_group_table().items() if one["state"] != "REMOVED"}
    missing = sorted(names - set(found))
    if missing:
        there = ", ".join(sorted(name for name in found if name)) or "none with a name"
        raise UserError(
            f"the cluster has no placement group `{missing[0]}` (there: {there}).",
            "Make it first, or take `placement_group` out of `ray:`.",
        )
    return {name: found[name] for name in names}


def check_reachable(where: str) -> None:
    """Ray itself would try for half a minute."""
    host, _, port = where.removeprefix("ray://").partition("/")[0].rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        with contextlib.closing(socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS)):
            return
    except OSError as error:
        raise _no_cluster(where, f" ({error.strerror or error})") from error


def address_of_cluster(ray: Any) -> str:
    """By which a command of another shell finds the cluster again."""
    context = ray.get_runtime_context()
    joined = str(context.namespace).removeprefix(JOINED_BY_US)
    return joined if joined.startswith("ray://") else str(context.gcs_address)


def is_head_here(ray: Any) -> bool:
    """Whether callers here reach what listens on loopback of the head node."""
    if ray.util.client.ray.is_connected():
        return False
    here = ray.get_runtime_context().get_node_id()
    return any(one["NodeID"] == here and "node:__internal_head__" in one["Resources"] for one in ray.nodes())


def _no_cluster(where: str, why: str = "") -> InfraError:
    named = "on this machine" if where == "auto" else f"at {where}"
    return InfraError(
        f"no Ray cluster answers {named}{why}.",
        "Start one here: ray start --head. Name another: --on ray://HOST:10001, or RAY_ADDRESS=HOST:6379",
    )

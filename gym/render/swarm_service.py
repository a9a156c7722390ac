"""A service of a Compose file -> one of a Swarm's: what means the same under other words. What has no counterpart is an
error here, so that nothing is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field

from gym.plan.model import Value
from gym.render.compose_model import ComposeService, Mount, Port, to_tree

Tree = dict[str, Any]
KEPT: Final = (
    *("image", "command", "user", "init", "read_only", "cap_drop", "cap_add", "stop_grace_period"),
    *("environment", "logging", "extra_hosts"),
)
TURNED: Final = (
    *("secrets", "volumes", "tmpfs", "ports", "cpus", "mem_limit", "pids_limit", "networks", "sysctls", "labels"),
    *("healthcheck", "restart", "deploy", "security_opt"),
)
# A Swarm replaces what is unhealthy. A server that is only busy gets a minute before that.
RETRIES: Final = 6


class Deployed(Value):
    """What Compose does not know of a service."""

    aliases: dict[str, tuple[str, ...]]  # by network, beside its name
    order: Literal["start-first", "stop-first"] = "start-first"
    constraints: tuple[str, ...] = ()
    labels: dict[str, str] = Field(default_factory=dict)  # of the service; its containers have some of their own
    reserved: dict[str, Any] = Field(default_factory=dict)
    configs: dict[str, str] = Field(default_factory=dict)  # by name, where it is mounted


def swarm_service(own: ComposeService, bases: Mapping[str, ComposeService], how: Deployed) -> Tree:
    one = _whole(own, bases)
    unknown = {key for key in type(one).model_fields if getattr(one, key) is not None} - {*KEPT, *TURNED, "base"}
    if unknown:
        raise ValueError(f"a Swarm has no {', '.join(sorted(unknown))}")
    tree: Tree = {key: value for key, value in to_tree(one).items() if key in KEPT}
    tree |= {
        "labels": dict(one.labels or {}),
        "sysctls": {key: str(value) for key, value in (one.sysctls or {}).items()},
        "healthcheck": {**to_tree(one.healthcheck), "retries": RETRIES} if one.healthcheck else None,
        "secrets": [{"source": name, "target": name, "mode": 0o444} for name in one.secrets or ()],
        "configs": [{"source": name, "target": target, "mode": 0o444} for name, target in how.configs.items()],
        "volumes": [*map(_bind, one.volumes or ()), *({"type": "tmpfs", "target": each} for each in one.tmpfs or ())],
        "ports": [*map(_port, one.ports or ())],
        "networks": {name: {"aliases": [*aliases]} for name, aliases in how.aliases.items()},
        "deploy": _deploy(one, how),
    }
    return {key: value for key, value in tree.items() if value not in (None, [], {})}


def _whole(own: ComposeService, bases: Mapping[str, ComposeService]) -> ComposeService:
    """With what it shares with others, which stands once in a Compose file."""
    layers = [bases["service"], *([bases["server"]] if own.base == "server" else []), own]
    said = [
        {key: getattr(one, key) for key in type(one).model_fields if getattr(one, key) is not None} for one in layers
    ]
    return ComposeService(**{key: value for each in said for key, value in each.items()})


def _deploy(one: ComposeService, how: Deployed) -> Tree:
    limits = {
        "cpus": f"{one.cpus:g}" if one.cpus else None,
        "memory": one.mem_limit,
        "pids": one.pids_limit,
    }
    return {
        "replicas": 1,
        "endpoint_mode": "dnsrr",  # a name is the address of its task: no balancer between, and no idle timeout of one
        "labels": dict(how.labels),
        "update_config": {"order": how.order, "failure_action": "pause"},
        "restart_policy": {"condition": "any", "delay": "1s"},
        "placement": {"constraints": [*how.constraints]},
        "resources": {
            "limits": {key: value for key, value in limits.items() if value is not None},
            **({"reservations": dict(how.reserved)} if how.reserved else {}),
        },
    }


def _bind(mount: Mount) -> Tree:
    tree: Tree = {"type": "bind", "source": mount.source, "target": mount.target}
    return tree if mount.writable else tree | {"read_only": True}


def _port(port: Port) -> Tree:
    """Of the node that runs it: the Swarm's own mesh has no counterpart on loopback either, and hides who calls."""
    return {"target": port.target, "published": port.published, "mode": "host"}

"""A plan as the actors of a Ray cluster: one for each replica, with what it asks of its node. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gym.config.model import RayFacts
from gym.errors import UserError
from gym.plan.digest import digest_value
from gym.plan.model import Plan, Service
from gym.plan.visible_settings import settings_for

DEFAULT_CPUS: Final = 0.1  # a server mostly waits; who computes says `cpus:`
HEAD_NODE: Final = {"node:__internal_head__": 0.001}  # Ray's own name of it
MEMORY: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)
UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
OWN_PARTS: Final = (("router", "traefik"), ("console", "gym.console"))

Tree = dict[str, Any]


@dataclass(frozen=True)
class ActorInputs:
    """What the caller has made ready for the nodes."""

    packs: Mapping[str, str] = field(default_factory=dict)  # instance -> the key of its files
    toolkit: str = ""  # the key of gym itself
    groups: Mapping[str, str] = field(default_factory=dict)  # placement group -> its id
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    peer_token: str = field(default="", repr=False)
    environ: Mapping[str, str] = field(default_factory=dict)  # for router and console
    router_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


def actor_orders(plan: Plan, inputs: ActorInputs) -> list[Tree]:
    """In the plan's order, then the router and the console, which stay on the head node."""
    document = plan.model_dump(mode="json")
    servers = [
        _server_order(plan, one, place, inputs, document) for one in plan.services for place in range(one.replicas)
    ]
    return [*servers, *(_own_order(plan, id, what, inputs, document) for id, what in OWN_PARTS)]


def actor_options(service: Service, groups: Mapping[str, str], place: int = 0) -> Tree:
    """In the words of Ray's `ActorClass.options`, beside groups; `place` is which of the replicas it is."""
    container, ray = service.container, service.container.ray or RayFacts()
    options: Tree = {"num_cpus": container.cpus if container.cpus is not None else DEFAULT_CPUS}
    if container.memory:
        options["memory"] = memory_bytes(service.name, container.memory)
    if container.gpus:
        options["num_gpus"] = _gpus(service)
    if ray.resources:
        options["resources"] = dict(ray.resources)
    if ray.placement_group:
        options["placement_group"] = {"id": groups.get(ray.placement_group, ""), "bundle": ray.bundle}
    elif ray.strategy:
        facts = {"instance": service.name, "strategy": ray.strategy, "count": service.replicas}
        options["own_group"] = {**facts, "asks": asked_resources(options), "bundle": place}
    elif service.replicas > 1:
        options["scheduling_strategy"] = "SPREAD"
    return options


def asked_resources(options: Mapping[str, Any]) -> dict[str, float]:
    """In the words of `ray status`."""
    words = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    return {words[key]: options[key] for key in words if options.get(key)} | dict(options.get("resources", {}))


def memory_bytes(name: str, text: str) -> int:
    found = MEMORY.fullmatch(text.strip())
    if found is None:
        raise UserError(f"{name}: memory: {text} is not an amount of memory.", "Write 512m or 2g.")
    return int(float(found[1]) * UNITS[found[2].lower()])


def _server_order(plan: Plan, service: Service, place: int, inputs: ActorInputs, document: Tree) -> Tree:
    id = service.replica_ids()[place]
    options = actor_options(service, inputs.groups, place)
    own = (f"{service.name}.", *settings_for(plan.settings, service))
    directory = service.directory
    return {
        **_shared(plan, inputs),
        "id": id,
        "instance": service.name,
        "type": service.type,
        "implementation": service.implementation,
        "digest": service.digest,
        "options": options,
        "asks": asked_resources(options),
        "pack": inputs.packs.get(service.name, ""),
        "folder": f"{service.type}/{directory.name}" if directory else "",
        "run": {
            "role": "server",
            "id": id,
            "instance": service.name,
            "plan": document,
            "secrets": {key: value for key, value in inputs.secrets.items() if key.startswith(own)},
            "peer_token": inputs.peer_token,
            "environ": {},
        },
    }


def _own_order(plan: Plan, id: str, implementation: str, inputs: ActorInputs, document: Tree) -> Tree:
    digest = digest_value([id, plan.router.model_dump(), plan.drain_seconds, plan.settings.get("telemetry")])[:32]
    return {
        **_shared(plan, inputs),
        "id": id,
        "instance": id,
        "type": id,
        "implementation": implementation,
        "digest": digest,
        "options": {"num_cpus": 0, "resources": HEAD_NODE},
        "asks": HEAD_NODE,
        "pack": "",
        "folder": "",
        "run": {
            "role": id,
            "id": id,
            "instance": id,
            "plan": document,
            "secrets": dict(inputs.router_secrets),
            "peer_token": inputs.peer_token,
            "environ": dict(inputs.environ),
        },
    }


def _shared(plan: Plan, inputs: ActorInputs) -> Tree:
    return {"toolkit": {"pack": inputs.toolkit}, "drain_seconds": plan.drain_seconds}


def _gpus(service: Service) -> int:
    if service.container.gpus == "all":
        raise UserError(
            f"{service.name}: `gpus: all` has no meaning where Ray gives out GPUs by number.", "Write `gpus: 1`."
        )
    return int(service.container.gpus or 0)

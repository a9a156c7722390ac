"""Which node of a job runs which replica, and what each node is asked for. Pure: nodes are numbers from 0."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final

from gym.errors import UserError
from gym.plan.model import Plan, Service, Value
from gym.render.slurm_settings import SlurmSettings, to_megabytes
from gym.wire.stack_names import CONSOLE, ROUTER, SANDBOX

FIRST: Final = 0  # the node of router, console and broker
CPUS_EACH: Final = 0.5  # of a replica that says nothing
MEMORY_EACH: Final = 512  # megabytes, of a replica that says nothing
OWN_CPUS: Final = 1.0  # router and console
OWN_MEMORY: Final = 512

Placement = Mapping[str, int]  # replica, sidecar or own part -> node


class NodeRequest(Value):
    """What every node of a job has to have: as much as the one that needs most."""

    nodes: int
    cpus: int
    memory: int  # megabytes
    gpus: int = 0

    def holds(self, other: NodeRequest) -> bool:
        return all(getattr(self, key) >= getattr(other, key) for key in ("nodes", "cpus", "memory", "gpus"))

    def words(self) -> str:
        gpus = f", {self.gpus} GPUs" if self.gpus else ""
        return f"{self.nodes} nodes of {self.cpus} CPUs, {self.memory} MB{gpus}"


def place(plan: Plan, nodes: int, former: Placement | None = None) -> dict[str, int]:
    """What runs stays where it is; a new replica goes where fewest of its instance are, then where least is asked for.

    An instance with `services:` is on one node, for they answer on its loopback alone.
    """
    found = {name: FIRST for name in (ROUTER, CONSOLE, *([SANDBOX] if plan.sandbox else []))}
    load: dict[int, float] = defaultdict(float, {FIRST: OWN_CPUS})
    kept = {name: node for name, node in (former or {}).items() if node < nodes}
    for service in plan.services:
        for replica in service.replica_ids():
            if replica in kept:
                found[replica] = kept[replica]
                load[kept[replica]] += cpus_of(service)
    for service in plan.services:
        _place_service(plan, service, nodes, found, load)
    return found


def node_request(plan: Plan, settings: SlurmSettings, placement: Placement) -> NodeRequest:
    """What the settings say of a node holds, where its replicas do not say that they need more."""
    cpus: dict[int, float] = defaultdict(float, {FIRST: OWN_CPUS})
    said_cpus, said_memory = Counter[int](), Counter[int]()
    memory, gpus = Counter({FIRST: OWN_MEMORY}), Counter[int]()
    for service in plan.services:
        for replica in service.replica_ids():
            node = placement[replica]
            cpus[node] += cpus_of(service)
            said = to_megabytes(service.container.memory) if service.container.memory else 0
            memory[node] += said or MEMORY_EACH
            said_memory[node] += said
            said_cpus[node] += math.ceil(service.container.cpus or 0)
            gpus[node] += gpus_of(service)
    for number, given in said_cpus.items():
        if settings.cpus and given > settings.cpus:
            raise _too_small(f"slurm.cpus is {settings.cpus}", number, f"{given} CPUs")
    for number, given in said_memory.items():
        if settings.memory and given > to_megabytes(settings.memory):
            raise _too_small(f"slurm.memory is {settings.memory}", number, f"{given} MB")
    return NodeRequest(
        nodes=settings.nodes,
        cpus=settings.cpus or max(1, math.ceil(max(cpus.values()))),
        memory=to_megabytes(settings.memory) if settings.memory else max(memory.values()),
        gpus=max(gpus.values(), default=0),
    )


def cpus_of(service: Service) -> float:
    return service.container.cpus or CPUS_EACH


def gpus_of(service: Service) -> int:
    asked = service.container.gpus
    if asked == "all":
        raise UserError(
            f"{service.name} asks for `gpus: all`, and a job has to say how many.", "Write a number: gpus: 1"
        )
    return int(asked or 0)


def _too_small(setting: str, node: int, need: str) -> UserError:
    return UserError(
        f"{setting}, and the replicas of node {node + 1} ask for {need}.", "Ask for larger nodes, or for more of them."
    )


def _place_service(plan: Plan, service: Service, nodes: int, found: dict[str, int], load: dict[int, float]) -> None:
    sidecars = plan.sidecars_of(service.name)
    own = Counter(found[one] for one in service.replica_ids() if one in found)
    for replica in service.replica_ids():
        if replica in found:
            continue
        together = next(iter(own), None) if sidecars else None
        node = together if together is not None else min(range(nodes), key=lambda one: (own[one], load[one], one))
        found[replica] = node
        own[node] += 1
        load[node] += cpus_of(service)
    home = next(iter(own), FIRST)
    found.update({one.slug: home for one in sidecars})

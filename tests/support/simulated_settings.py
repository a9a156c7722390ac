"""What is simulated: a cluster, the work on it, and what each part takes for a rollout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.simulated_parts import ServiceTime


@dataclass(frozen=True)
class CpuTimes:
    """Seconds of CPU for one rollout, as measured; `simulate.py measure` writes them."""

    collector: ServiceTime = ServiceTime(0.0003)
    router: ServiceTime = ServiceTime(0.00015)
    agent: ServiceTime = ServiceTime(0.0002)
    model: ServiceTime = ServiceTime(0.0001)
    resources: ServiceTime = ServiceTime(0.0001)
    broker: ServiceTime = ServiceTime(0.002)  # for a sandbox, made, used and removed
    engine: ServiceTime = ServiceTime(0.1)
    discovery: float = 2e-6  # of the console and each replica, whenever a collector reads the document

    @classmethod
    def from_json(cls, measured: Mapping[str, Any]) -> CpuTimes:
        times = {name: ServiceTime(one["mean"], one["spread"]) for name, one in measured["cpu_seconds"].items()}
        return cls(**times, discovery=measured["discovery_seconds_a_replica"])


@dataclass(frozen=True)
class Work:
    """What a rollout does, and on which nodes it is done."""

    name: str = "text"
    policy: ServiceTime = ServiceTime(10.0, 0.5)  # seconds of generation, of all calls together
    policy_places: int = 64  # sequences at once, for each node
    node_cores: int = 8
    router_cores: int = 2
    failures: float = 0.0  # the share of attempts that fail by the infrastructure
    images: int = 0  # 0: a rollout needs no sandbox
    image_megabytes: float = 600.0  # of its own layers
    registry_megabytes: float = 1250.0  # a second: 10 Gbit/s
    commands: ServiceTime = ServiceTime(5.0, 0.5)  # CPU in the sandbox
    beside: bool = False  # the collector runs on the first node and shares its cores


@dataclass(frozen=True)
class Scale:
    """What a user can set."""

    nodes: int = 1
    stacks: int = 1  # the nodes are shared out among them; each has a router, a console and a broker
    collectors: int = 1  # of each stack: --shard
    concurrency: int = 64
    routed: bool = False  # --through-router, as collectors elsewhere do
    routers: int = 1  # of each stack
    replicas: int = 1  # of each instance, on each node
    mirrors: int = 0
    warm: int = 0
    prefetch: bool = False  # the mirrors were filled before

    @property
    def in_flight(self) -> int:
        return self.stacks * self.collectors * self.concurrency

    def with_(self, **changes: Any) -> Scale:
        return replace(self, **changes)


@dataclass
class Outage:
    """One node refuses connections between two times."""

    node: int = -1
    begins: float = 0.0
    ends: float = 0.0


@dataclass
class Result:
    rollouts: int
    failed: int
    attempts: int
    seconds: float  # simulated, of the whole run
    rate: float  # a second, in the middle of the run
    latency: float  # mean of an attempt, as the collector wrote it
    in_flight: float  # mean, as the servers saw it
    used: dict[str, float] = field(default_factory=dict)  # share of its capacity in the middle, by kind of part
    most_used: dict[str, float] = field(default_factory=dict)  # of one part of the kind, in the whole run
    pauses: int = 0
    retries: int = 0

    @property
    def limit(self) -> str:
        """The kind of part that has no room left; without one it is the number of rollouts at once."""
        kind = max(self.used, key=lambda one: self.used[one])
        return kind if self.used[kind] >= FULL else "--concurrency"


FULL = 0.9

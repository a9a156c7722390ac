"""The servers of a simulated cluster, behind the face of an HTTP client: what a collector sends arrives here."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import orjson

from gym.http.pool import NotSent, Reply
from gym.labels import HEADER_ROLLOUT
from gym.wire.discovery import Discovery, InstanceView, ReplicaView, replica_route
from tests.support.simulated_broker import SimulatedBroker
from tests.support.simulated_parts import Mirror, Part, ReplicaLock
from tests.support.simulated_settings import CpuTimes, Outage, Scale, Work

AGENT = "simulated_agent"
SERVER_CORES = ENGINE_CORES = 2  # of a node whose other cores are for sandboxes
KINDS = {AGENT: "responses_api_agents", "simulated": "resources_servers", "policy_model": "responses_api_models"}
REPLY = b'{"responses_create_params":{"input":"Hello"},"response":{"output":[]},"reward":1.0}'
FAILURE = Reply(
    502,
    [(b"x-gym-error", b"resources")],
    b'{"error": {"kind": "resources", "server": "simulated", "message": "it broke", "retryable": true}}',
)


class Node:
    """Its cores, and one replica or more of each instance on them."""

    def __init__(self, number: int, scale: Scale, work: Work) -> None:
        self.number = number
        servers = SERVER_CORES if work.images else work.node_cores
        self.cores = Part("node cores", servers)
        self.engine = Part("engine", ENGINE_CORES)
        self.sandbox_cores = Part("sandbox cores", max(work.node_cores - servers - ENGINE_CORES, 1))
        self.agents = [ReplicaLock("agent replicas", self.cores) for _ in range(scale.replicas)]
        self.resources = [ReplicaLock("resources replicas", self.cores) for _ in range(scale.replicas)]
        self.models = [ReplicaLock("model replicas", self.cores) for _ in range(scale.replicas)]


class SimulatedStack:
    """The nodes of one `gym up`, with their router, console and broker."""

    def __init__(self, number: int, nodes: list[Node], cluster: Cluster) -> None:
        scale, work = cluster.scale, cluster.work
        self.number = number
        self.nodes = nodes
        self.url = f"http://router{number}:11000"
        self.routers = [Part("router", work.router_cores) for _ in range(scale.routers)]
        self.console = Part("console", 1)
        self.broker: SimulatedBroker | None = None
        if work.images:
            mirror = cluster.mirrors[number % len(cluster.mirrors)]
            # The broker's engine is the one of its own machine: the stack's first node.
            self.broker = SimulatedBroker(cluster, nodes[0].engine, nodes[0].sandbox_cores, mirror)
        self._document = _discovery(self)

    async def read(self) -> Discovery:
        """What a collector does every five seconds."""
        replicas = sum(len(one.agents) + len(one.resources) + len(one.models) for one in self.nodes)
        await self.console.serve(replicas * self.cluster_cpu.discovery)
        return self._document

    cluster_cpu: CpuTimes


class Cluster:
    """Fits `HttpClient`, as far as a collector uses one."""

    def __init__(self, scale: Scale, work: Work, cpu: CpuTimes, outage: Outage | None = None, seed: int = 0) -> None:
        self.scale, self.work, self.cpu = scale, work, cpu
        self.outage = outage or Outage()
        self.chance = random.Random(seed)
        self.policy = Part("policy", work.policy_places * scale.nodes)
        self.registry = Part("registry", 1)
        links = [Part("mirrors", 1) for _ in range(scale.mirrors)] or [self.registry]
        seconds = work.image_megabytes / work.registry_megabytes
        self.mirrors = [Mirror(self.registry, link, seconds, filled=scale.prefetch) for link in links]
        self.nodes = [Node(number, scale, work) for number in range(scale.nodes)]
        SimulatedStack.cluster_cpu = cpu
        self.stacks = [
            SimulatedStack(number, self.nodes[number :: scale.stacks], self) for number in range(scale.stacks)
        ]
        self._by_host = {f"agent-{node.number}-{i}": (node, i) for node in self.nodes for i in range(scale.replicas)}
        self._by_url = {one.url: one for one in self.stacks}
        self.in_flight = 0
        self.area = 0.0  # seconds times rollouts in flight
        self._seen = 0.0
        self.attempts = 0

    def parts(self) -> Iterator[Part | ReplicaLock]:
        yield self.policy
        for node in self.nodes:
            yield node.cores
            yield from (*node.agents, *node.resources, *node.models)
        for stack in self.stacks:
            yield from (*stack.routers, stack.console)
            if stack.broker is not None:
                yield stack.broker.process
                yield from (stack.nodes[0].engine, stack.nodes[0].sandbox_cores)
        if self.work.images:
            yield self.registry
            yield from (one.link for one in self.mirrors if one.link is not self.registry)

    # The face of a client.

    def expect_health(self, url: str) -> None: ...

    def is_lost(self, url: str) -> bool:
        return False

    async def request(self, method: str, url: str, *, headers: Any = (), **others: Any) -> Reply:
        scheme, _, rest = url.partition("://")
        host, _, path = rest.partition("/")
        if path == "vanished":
            return Reply(200, [], b'{"vanished": []}')
        stack = self._by_url.get(f"{scheme}://{host}")
        if stack is not None:
            await self._route(stack)
            host, path = path.removeprefix("s/~").split("/", 1)
        node, index = self._by_host[host.removesuffix(":8000")]
        self._check(node)
        if path == "healthz":
            return Reply(200, [], b"{}")
        rollout = next((value.decode() for name, value in headers if name == HEADER_ROLLOUT.encode()), "")
        self.attempts += 1
        return await self._run(node, index, rollout)

    async def _route(self, stack: SimulatedStack) -> None:
        router = stack.routers[self.chance.randrange(len(stack.routers))]
        await router.serve(self.cpu.router.draw(self.chance))

    def _check(self, node: Node) -> None:
        now = asyncio.get_running_loop().time()
        if node.number == self.outage.node and self.outage.begins <= now < self.outage.ends:
            raise NotSent("connection refused")

    def count(self, change: int) -> None:
        """A request is under way, or no longer."""
        now = asyncio.get_running_loop().time()
        self.area += self.in_flight * (now - self._seen)
        self._seen = now
        self.in_flight += change

    async def _run(self, node: Node, index: int, rollout: str) -> Reply:
        """One `/run`: a model call and verify, with a sandbox in between where the work needs one."""
        chance, cpu = self.chance, self.cpu
        await node.agents[index].serve(cpu.agent.draw(chance))
        await node.models[index].serve(cpu.model.draw(chance))
        await self.policy.serve(self.work.policy.draw(chance))
        if chance.random() < self.work.failures:
            return FAILURE
        broker = self.stacks[node.number % len(self.stacks)].broker
        if broker is not None:
            await broker.use_sandbox(rollout)
        await node.resources[index].serve(cpu.resources.draw(chance))
        return Reply(200, [], REPLY)


def _discovery(stack: SimulatedStack) -> Discovery:
    count = len(stack.nodes[0].agents)
    instances = {}
    for name, kind in KINDS.items():
        prefix = {"responses_api_agents": "agent", "resources_servers": "res"}.get(kind, "model")
        ids = [f"{prefix}-{node.number}-{index}" for node in stack.nodes for index in range(count)]
        replicas = [ReplicaView(id=id, url=f"http://{id}:8000", route=replica_route(_typed(kind), id)) for id in ids]
        instances[name] = InstanceView(type=_typed(kind), implementation=name, replicas=tuple(replicas), sdk=True)
    return Discovery(stack=f"stack{stack.number}", router=stack.url, instances=instances)


def _typed(kind: str) -> Any:
    return kind


def rows(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield orjson.dumps({"responses_create_params": {"input": f"task {number}"}})

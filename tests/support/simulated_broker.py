"""The real broker of a simulated stack, with admission, warm pools, leases and image pulls; its engine is simulated."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from gym.broker import lifecycle
from gym.broker.audit_log import Audit
from gym.broker.config import BrokerCaller, BrokerConfig, BrokerSettings, InstanceAccess
from gym.broker.provider import Abilities, Progress, Tags
from gym.broker.service import Broker, Requester
from gym.wire.sandbox import Grant, SandboxSpec, token_digest
from tests.support.simulated_parts import Mirror, Part, ServiceTime

if TYPE_CHECKING:
    from tests.support.simulated_cluster import Cluster

INSTANCE, OWNER = "simulated", "the resources server"
RENEW_SECONDS = 5.0


class SimulatedBroker:
    def __init__(self, cluster: Cluster, engine: Part, sandbox_cores: Part, mirror: Mirror) -> None:
        work, scale, cpu = cluster.work, cluster.scale, cluster.cpu
        self.process = Part("broker", 1)
        self._cpu, self._chance = cpu.broker, cluster.chance
        self._commands, self._images = work.commands, work.images
        self._engine = SimulatedEngine(engine, mirror, cpu.engine, cluster.chance)
        grant = Grant(images=("*",), warm=scale.warm, max_sandboxes=100_000)
        access = InstanceAccess(token_sha256=token_digest("a token"), grant=grant)
        settings = BrokerSettings(queue=100_000, warm_total=max(scale.warm, 1) * 16)
        config = BrokerConfig(stack="simulated", settings=settings, instances={INSTANCE: access})
        self._broker = Broker(config, self._engine, lambda spec, _: spec, _Silent(), memory=lambda: math.inf)
        self._caller = BrokerCaller(INSTANCE, grant)
        self._cores = sandbox_cores
        self._renewals: asyncio.Task[None] | None = None

    async def start(self) -> None:
        broker, clock = self._broker, asyncio.get_running_loop().time
        for part in (broker.leases, broker.warm, broker.images, broker.breaker):
            part._clock = clock
        await lifecycle.start(broker)
        self._renewals = asyncio.create_task(self._renew())

    async def stop(self) -> None:
        if self._renewals is not None:
            self._renewals.cancel()
        await lifecycle.close(self._broker)

    async def use_sandbox(self, rollout: str) -> None:
        """Made or taken from the pool, one command of the work's length, removed."""
        await self.process.serve(self._cpu.draw(self._chance))
        number = int(rollout.split("-")[1]) % self._images
        requester = Requester(self._caller, rollout, OWNER)
        entry = await self._broker.create(requester, SandboxSpec(image=f"task{number}"))
        async with self._broker.execs.slot_for(entry.lane, float("inf")) as slot:
            seconds = self._commands.draw(self._chance)
            slot.seconds = 0.0  # how long a command takes says nothing of the engine
            await self._cores.serve(seconds)
        self._broker.remove(entry, "its rollout ended")

    def status(self) -> dict[str, Any]:
        return self._broker.status()

    async def _renew(self) -> None:
        while True:
            self._broker.leases.renew((INSTANCE, OWNER))
            await asyncio.sleep(RENEW_SECONDS)


class SimulatedEngine:
    """Fits `Provider`: what it makes takes cores, what it pulls takes the registry."""

    name = "simulated"
    abilities = Abilities(True, True, ("none",), True, True, True)

    def __init__(self, cores: Part, mirror: Mirror, cpu: ServiceTime, chance: random.Random) -> None:
        self._cores, self._mirror, self._cpu, self._chance = cores, mirror, cpu, chance
        self._here: set[str] = set()
        self.made = self.removed = 0

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def ping(self) -> float:
        return 0.001

    async def prepare(self, spec: SandboxSpec, progress: Progress | None = None) -> str:
        if spec.image not in self._here:
            await self._mirror.pull(spec.image or "")
            self._here.add(spec.image or "")
        return "sha256:0"

    async def make_image(self, build: Any, progress: Progress | None = None) -> str:
        raise NotImplementedError

    async def create(self, spec: SandboxSpec, tags: Tags) -> SimulatedSandbox:
        await self._cores.serve(self._cpu.draw(self._chance) / 2)
        self.made += 1
        return SimulatedSandbox(self, spec, tags)

    async def remove(self) -> None:
        await self._cores.serve(self._cpu.draw(self._chance) / 2)
        self.removed += 1

    async def found(self, stack: str) -> AsyncIterator[tuple[Tags, Callable[[], object]]]:
        nothing: tuple[tuple[Tags, Callable[[], object]], ...] = ()
        for one in nothing:
            yield one

    async def sweep(self, stack: str, keep: frozenset[str]) -> int:
        return 0

    async def collect_garbage(self, low: float, high: float) -> int:
        return 0


class SimulatedSandbox:
    own_doing = False

    def __init__(self, engine: SimulatedEngine, spec: SandboxSpec, tags: Tags) -> None:
        self._engine, self.spec, self.tags = engine, spec, tags
        self._gone = asyncio.get_running_loop().create_future()

    @property
    def channel(self) -> Any:
        return self

    @property
    def closed(self) -> bool:
        return self._gone.done()

    adopted = ()

    async def wait_closed(self) -> str:
        return str(await asyncio.shield(self._gone))

    async def channel_as(self, user: str) -> Any:
        return self

    async def retag(self, tags: Tags) -> None:
        self.tags = tags

    async def fork(self, tags: Tags) -> Any:
        raise NotImplementedError

    async def seal(self) -> None: ...

    async def why_lost(self) -> str:
        return "removed"

    async def remove(self) -> None:
        await self._engine.remove()
        if not self._gone.done():
            self._gone.set_result("removed")


class _Silent(Audit):
    def __init__(self) -> None: ...

    def note(self, event: str, **facts: Any) -> None: ...

    def close(self) -> None: ...

"""What grows faster than the stack: our own code alone, at sizes that no machine here could run.

    nice .venv/bin/python -m tests.bench.growth [--only NAME]

Each part is timed at three sizes, by CPU, best of three. `power` is the exponent between the two largest: 1.0 is in
proportion to the size.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any

import orjson

from gym.broker.admission import Admission
from gym.broker.audit_log import Audit
from gym.broker.config import BrokerCaller
from gym.broker.errors import Busy
from gym.broker.meters import Meters
from gym.broker.registry import SandboxEntry
from gym.broker.service import Broker, Requester
from gym.broker.warm import PoolHost, WarmPools
from gym.collect.circuit_breaker import CircuitBreaker
from gym.collect.fair_queue import FairQueue
from gym.collect.keys import DoneKeys
from gym.collect.targets import Targets
from gym.collect.task_reader import Task
from gym.config.model import ContainerFacts
from gym.http.pool import HttpClient, Reply
from gym.plan import make_plan
from gym.plan.model import Plan
from gym.render.traefik import traefik_dynamic
from gym.runtime.local.publish import instance_views
from gym.runtime.status import ReplicaStatus
from gym.server import Agent, AgentConfig
from gym.server.config import Settings
from gym.server.replicas import Peers
from gym.server.rollout_client import RolloutClient
from gym.wire.discovery import Discovery, InstanceView, ReplicaView, replica_route
from gym.wire.failures import RolloutError
from gym.wire.sandbox import SandboxSpec
from tests.support.plans import agent, instance, stack
from tests.support.sandbox_broker import MemoryEngine, MemoryHeld, make_config, take_image_names

Part = Callable[[int], float]  # CPU seconds of the work at a size
CONSOLE = "http://127.0.0.1:9000"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts whose name contains this")
    wanted = parser.parse_args().only
    print(f"{'part':58} {'':>8} {'CPU ms':>10} {'':>8} {'CPU ms':>10} {'':>8} {'CPU ms':>10}  power")
    for name, (sizes, part) in PARTS.items():
        if wanted in name:
            show(name, sizes, part)


def show(name: str, sizes: tuple[int, ...], part: Part) -> None:
    found = [min(part(size) for _ in range(3)) for size in sizes]
    power = math.log(found[-1] / found[-2]) / math.log(sizes[-1] / sizes[-2])
    cells = " ".join(f"{size:8,} {1e3 * seconds:10.3f}" for size, seconds in zip(sizes, found, strict=True))
    print(f"{name:58} {cells}  {power:5.2f}", flush=True)


# The plan, and what is written of it.


def plan_instances(count: int) -> float:
    config = stack()
    config = config.model_copy(update={"instances": tuple(_instances(count))})
    return cpu(lambda: make_plan(config))


def write_routes(count: int) -> float:
    plan, found = _found(count)
    return cpu(lambda: traefik_dynamic(plan, found, console=CONSOLE))


def write_discovery(count: int) -> float:
    _, found = _found(count)
    return cpu(found.model_dump_json)


def read_discovery(count: int) -> float:
    text = _found(count)[1].model_dump_json()
    return cpu(lambda: Discovery.model_validate_json(text))


def publish_views(count: int) -> float:
    """As many instances as replicas: what one change of one replica costs a supervisor."""
    plan = make_plan(stack().model_copy(update={"instances": tuple(_instances(count))}))
    replicas = [
        ReplicaStatus(
            replica=one.slug, instance=one.name, type=one.type, implementation="x", state="healthy", url=CONSOLE
        )
        for one in plan.services
    ]
    return cpu(lambda: instance_views(plan.services, replicas))


# The collector.


def adopt_discovery(count: int) -> float:
    """A collector reads the document again every five seconds."""
    _, found = _found(count)

    async def run() -> float:
        targets, http = await _targets(found)
        began = time.process_time()
        await targets.connect()
        await http.aclose()
        return time.process_time() - began

    return asyncio.run(run())


def pick_replica(count: int) -> float:
    """For a hundred attempts, among so many replicas of one agent."""
    _, found = _found(2 * count, pairs=1)

    async def run() -> float:
        targets, http = await _targets(found)
        seconds = cpu(lambda: [_use(targets) for _ in range(100)])
        await http.aclose()
        return seconds

    return asyncio.run(run())


def take_fairly(agents: int) -> float:
    """A thousand rows, of so many agents."""
    queue = FairQueue()
    for number in range(max(2 * agents, 2000)):
        queue.put(Task(b"{}", b"}", f"{number:016x}:0", f"agent{number % agents}", number, 0, ""))

    def work() -> None:
        for _ in range(1000):
            task = queue.take()
            assert task is not None
            queue.runs_short(64)
            queue.finish(task)

    return cpu(work)


def fail_in_flight(flight: int) -> float:
    """A hundred failures of a kind that counts, among so many attempts under way."""

    async def run() -> float:
        breaker = CircuitBreaker("agent", first_wait=1, max_pause=600, on_change=lambda *_: None)
        numbers = [breaker.begin(f"{number:016x}:0") for number in range(flight)]
        for number in numbers[: flight // 2 : max(flight // 400, 1)]:
            breaker.record(number, RolloutError("timeout", "late"))
        failure = RolloutError("model", "refused", server="policy_model")
        ends = numbers[-100:]
        return cpu(lambda: [breaker.record(number, failure if number % 2 else None) for number in ends])

    return asyncio.run(run())


def add_keys(count: int) -> float:
    def work() -> None:
        done = DoneKeys()
        for number in range(count):
            done.add(number * 0x9E3779B97F4A7C15 & (1 << 64) - 1, 0)

    return cpu(work)


# The broker.


def wait_in_queue(waiting: int) -> float:
    """So many requests of one rollout's lane wait, and all of them give up."""

    async def run() -> float:
        admission = Admission("create", max_limit=1, queue=1 << 20, slow=10.0)
        slot = admission.try_enter()
        assert slot is not None
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(_enter(admission)) for _ in range(waiting)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        began = time.process_time()
        for task in reversed(tasks):
            task.cancel()
        await asyncio.wait(tasks)
        return time.process_time() - began

    return asyncio.run(run())


def count_sandboxes(alive: int) -> float:
    """A hundred creates ask how many their instance has."""
    return _with_broker(alive, lambda broker: [broker.registry.count("mcqa") for _ in range(100)])


def look_for_expired(alive: int) -> float:
    """What the reaper does twice a second."""
    return _with_broker(alive, lambda broker: [entry.owner for entry in broker.registry])


def tend_pools(pools: int) -> float:
    """After each create."""

    async def run() -> float:
        warm = WarmPools(make_config().settings, PoolHost(_never, _never, lambda _: 1e9, lambda: 1e12, Meters()))
        for number in (*range(pools), *range(pools)):  # twice: after one request none is kept
            warm.take(SandboxSpec(image=f"task{number}"), "mcqa", 4)
        return cpu(lambda: warm.tend(lambda work, _: work.close()))

    return asyncio.run(run())


# The agent's loop.


class LongConversation(RolloutClient):
    """Its model calls a tool each time, with 150 token ids and log-probs, and the tool says 1 KB."""

    ids = {"prompt_token_ids": [151_000] * 150, "generation_token_ids": [151_000] * 150}
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}", **ids}
    reply = orjson.dumps({"output": [{**call, "generation_log_probs": [-0.12345678901234567] * 150}]})

    async def post(self, *_: Any, **__: Any) -> Reply:
        return Reply(200, [], self.reply)

    async def call_tool(self, name: str, arguments: bytes) -> tuple[int, str]:
        return 200, "what it saw " * 85


def converse(steps: int) -> float:
    """All of it but HTTP: what is sent grows by the square, 120 MB in 200 steps."""
    budgets = {"max_tool_calls": None, "max_total_tokens": None}
    loop = Agent(AgentConfig(name="a", max_steps=steps, **budgets), Settings())

    async def respond() -> float:
        http = HttpClient()
        rollout = LongConversation(http, Peers("", {}, http), seconds=3600, model_server="m", resources_server="r")
        begun = time.process_time()
        await loop.respond({"input": "go"}, rollout)
        return time.process_time() - begun

    return asyncio.run(respond())


PARTS: dict[str, tuple[tuple[int, ...], Part]] = {
    "plan of so many instances": ((100, 1000, 4000), plan_instances),
    "routes of so many replicas (Traefik's file)": ((100, 1000, 10_000), write_routes),
    "discovery document written": ((100, 1000, 10_000), write_discovery),
    "discovery document parsed": ((100, 1000, 10_000), read_discovery),
    "discovery document adopted by a collector": ((100, 1000, 10_000), adopt_discovery),
    "views of as many instances, at a replica's change": ((100, 1000, 4000), publish_views),
    "a replica picked, 100 times": ((10, 100, 1000), pick_replica),
    "1,000 rows taken in turn by so many agents": ((10, 100, 1000), take_fairly),
    "100 failures among so many in flight": ((100, 1000, 10_000), fail_in_flight),
    "keys added": ((10_000, 100_000, 1_000_000), add_keys),
    "waiting requests of one lane that give up": ((400, 4000, 20_000), wait_in_queue),
    "sandboxes counted, 100 times": ((100, 1000, 10_000), count_sandboxes),
    "sandboxes looked at by the reaper": ((100, 1000, 10_000), look_for_expired),
    "warm pools tended": ((16, 64, 256), tend_pools),
    "an agent's loop of so many steps": ((50, 200, 800), converse),
}


def cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _instances(count: int) -> list[Any]:
    model = stack().instances[-1]
    pairs = [(instance(f"env{number}"), agent(f"env{number}_agent", f"env{number}")) for number in range(count // 2)]
    return [model, *(one for pair in pairs for one in pair)]


def _found(count: int, pairs: int = 10) -> tuple[Plan, Discovery]:
    """So many environments of as many replicas, each with its agent."""
    each = max(count // (2 * pairs), 1)
    made = _instances(2 * pairs)
    instances = [one.model_copy(update={"container": ContainerFacts(replicas=each)}) for one in made]
    plan = make_plan(stack().model_copy(update={"instances": tuple(instances)}))
    views = {
        one.name: InstanceView(
            type=one.type,
            implementation=one.implementation,
            replicas=tuple(
                ReplicaView(id=id, url=f"http://{id}:8000", route=replica_route(one.type, id))
                for id in one.replica_ids()
            ),
            sdk=True,
        )
        for one in plan.services
    }
    return plan, Discovery(stack="gym", instances=views)


async def _targets(found: Discovery) -> tuple[Targets, HttpClient]:
    async def read() -> Discovery:
        return found

    http = HttpClient()
    targets = Targets(http, "", read=read)
    await targets.connect()
    return targets, http


def _use(targets: Targets) -> int:
    replica = targets.pick("env0_agent")
    assert replica is not None
    replica.in_flight += 1
    return replica.in_flight


async def _enter(admission: Admission) -> None:
    try:
        async with admission.slot_for("rollout", float("inf")):
            pass
    except Busy:
        return


def _with_broker(alive: int, work: Callable[[Broker], object]) -> float:
    async def run() -> float:
        engine = MemoryEngine()
        broker = Broker(make_config(), engine, take_image_names, Audit(stream=io.StringIO()))
        spec = SandboxSpec(image="task")
        for number in range(alive):
            tags = broker._tags(_requester(broker, f"r{number}"), spec)
            broker.registry.add(SandboxEntry(MemoryHeld(engine, spec, tags), tags, spec, "memory", 1e9))
        return cpu(lambda: work(broker))

    return asyncio.run(run())


def _requester(broker: Broker, rollout: str) -> Requester:
    return Requester(BrokerCaller("mcqa", broker.config.instances["mcqa"].grant), rollout)


def _never(*_: Any) -> Coroutine[Any, Any, None]:
    async def nothing() -> None: ...

    return nothing()


if __name__ == "__main__":
    main()

"""Ready sandboxes: handed out once, never again, as many as are in use, none without a request."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
import pytest

from gym.broker.config import BrokerSettings
from gym.broker.meters import Meters
from gym.broker.provider import ProviderSandbox, Tags
from gym.broker.warm import PoolHost, WarmPools, can_wait, spec_key
from gym.errors import InfraError
from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Grant, SandboxInfo, SandboxSpec
from tests.support.sandbox_broker import (
    SPEC,
    TOKEN,
    MemoryEngine,
    Running,
    broker_running,
    make_config,
    memory_broker,
    until,
)

WARM = Grant(images=("task*",), warm=3)


def ready(running: Running) -> int:
    return sum(pool["ready"] for pool in running.broker.warm.status())


async def made_twice(running: Running, sandboxes: Sandboxes) -> list[Sandbox]:
    """Two that were asked for at once; some are ready when this returns."""
    made = list(await asyncio.gather(*(sandboxes.create(SPEC) for _ in range(2))))
    await until(lambda: ready(running))
    return made


async def test_from_the_second_request_on_sandboxes_are_ready_and_each_is_handed_out_once() -> None:
    async with memory_broker(make_config(WARM)) as (engine, running, sandboxes):
        first, second = await made_twice(running, sandboxes)
        third = await sandboxes.create(SPEC, rollout="9-9")
        assert third.id in {tags.id for tags in engine.made if tags.warm}
        assert running.events("create")[-1]["warm"] is True
        await until(lambda: not engine.alive[third.id].tags.warm)
        tags = engine.alive[third.id].tags
        assert (tags.warm, tags.instance, tags.rollout, tags.owner) == ("", "mcqa", "9-9", sandboxes.owner)
        assert tags.expires > time.time() + 3000
        rest = await asyncio.gather(*(sandboxes.create(SPEC) for _ in range(8)))
        ids = [one.id for one in (first, second, third, *rest)]
        assert len(set(ids)) == len(ids)
        await first.delete()
        assert first.id not in engine.alive  # given back is gone: nothing of one rollout reaches another
        counts = running.broker.meters.counts
        assert counts["claim", "hit"] >= 1
        assert counts["claim", "hit"] + counts["claim", "miss"] == len(ids)


async def test_one_request_of_its_kind_makes_nothing_ready() -> None:
    async with memory_broker(make_config(WARM)) as (engine, running, sandboxes):
        await sandboxes.create({"image": "task-1"})
        await sandboxes.create({"image": "task-2"})
        running.broker.warm.tend(running.broker.tasks.spawn)
        await asyncio.sleep(0)
        assert len(engine.made) == 2


async def test_without_a_pool_by_configuration_nothing_is_made_ahead() -> None:
    for config in (make_config(Grant(images=("task*",), warm=0)), make_config(WARM, warm_total=0)):
        async with memory_broker(config) as (engine, running, sandboxes):
            await asyncio.gather(*(sandboxes.create(SPEC) for _ in range(4)))
            running.broker.warm.tend(running.broker.tasks.spawn)
            await asyncio.sleep(0)
            assert len(engine.made) == 4
            assert not running.broker.warm.status()


async def test_a_built_image_has_ready_ones_once_it_is_there() -> None:
    spec = {"build": {"dockerfile": "FROM task"}}
    async with memory_broker(make_config(Grant(images=("task*",), build=True, warm=3))) as (engine, running, sandboxes):
        engine.prepare_gate = "building"
        creating = [asyncio.create_task(sandboxes.create(spec)) for _ in range(2)]
        await until(lambda: engine.prepared)
        running.broker.warm.tend(running.broker.tasks.spawn)
        await asyncio.sleep(0)
        assert not engine.made  # nothing is built for the pool's sake
        engine.release("building")
        await asyncio.gather(*creating)
        await until(lambda: ready(running))


async def test_ready_ones_go_without_requests() -> None:
    async with memory_broker(make_config(WARM, warm_idle_seconds=0.2)) as (engine, running, sandboxes):
        made = await made_twice(running, sandboxes)
        await until(lambda: set(engine.alive) == {one.id for one in made})


async def test_one_that_died_while_it_waited_is_not_handed_out() -> None:
    async with memory_broker(make_config(WARM)) as (engine, running, sandboxes):
        await made_twice(running, sandboxes)
        dead = {tags.id for tags in engine.made if tags.warm}
        for name in dead:
            engine.alive[name].memory.end("it was killed")
        fresh = await sandboxes.create(SPEC)
        assert fresh.id not in dead
        await until(lambda: not dead & set(engine.alive))


async def test_ready_ones_are_replaced_before_they_grow_old() -> None:
    async with memory_broker(make_config(WARM, warm_age_seconds=0.2)) as (engine, running, sandboxes):
        await made_twice(running, sandboxes)
        old = {tags.id for tags in engine.made if tags.warm}
        await until(lambda: not old & set(engine.alive))
        await until(lambda: ready(running))


async def test_ready_ones_make_room_when_all_that_the_grant_allows_is_asked_for() -> None:
    async with memory_broker(make_config(Grant(images=("task*",), warm=3, max_sandboxes=4))) as (
        engine,
        running,
        sandboxes,
    ):
        made = await made_twice(running, sandboxes)
        await until(lambda: len(engine.alive) == 4)  # never more, though three are wanted
        made += [await sandboxes.create({"image": "task-other"}) for _ in range(2)]
        await until(lambda: set(engine.alive) == {one.id for one in made})
        assert not ready(running)
        with pytest.raises(RolloutError, match="as many as its grant allows"):
            await sandboxes.create(SPEC, timeout=0.2)


async def test_a_request_that_is_repeated_to_the_next_broker_gets_what_it_was_given() -> None:
    engine, again = MemoryEngine(), {"content-type": "application/json", "x-gym-request-id": "once"}
    async with broker_running(engine, make_config(WARM, hand_over=True)) as running:
        sandboxes = Sandboxes(running.url, TOKEN)
        await made_twice(running, sandboxes)
        given = SandboxInfo.model_validate_json(await post_create(running.url, again, sandboxes.owner))
        assert given.id in {tags.id for tags in engine.made if tags.warm}
        await until(lambda: engine.alive[given.id].tags.request)
    engine.left, before = [engine.alive[given.id]], len(engine.made)
    async with broker_running(engine, make_config(WARM)) as running:
        repeated = SandboxInfo.model_validate_json(await post_create(running.url, again, sandboxes.owner))
        assert (repeated.id, len(engine.made)) == (given.id, before)


async def post_create(url: str, headers: dict[str, str], owner: str) -> bytes:
    headers = {**headers, "authorization": f"Bearer {TOKEN}"}
    async with (
        aiohttp.ClientSession() as http,
        http.post(f"{url}/sandboxes", json={**SPEC, "owner": owner}, headers=headers) as reply,
    ):
        assert reply.status == 201
        return await reply.read()


class Pools:
    """The pools with a clock, a machine and a grant that the test sets; what is spawned runs at once."""

    def __init__(self, **settings: float) -> None:
        self.now, self.free, self.room = 0.0, 1e12, 1e9
        self.engine, self.meters = MemoryEngine(), Meters()
        self.dropped: list[str] = []
        host = PoolHost(self.make, self.drop, lambda _: self.room, lambda: self.free, self.meters)
        self.pools = WarmPools(BrokerSettings.model_validate(settings), host, lambda: self.now)
        self.numbers = iter(range(1000))

    async def make(self, spec: SandboxSpec, instance: str, key: str) -> ProviderSandbox | None:
        return await self.engine.create(spec, Tags(f"s{next(self.numbers)}", "unit", instance, "", warm=key))

    def drop(self, sandbox: ProviderSandbox, why: str) -> None:
        self.dropped.append(why)

    async def tend(self) -> int:
        async with asyncio.TaskGroup() as group:
            self.pools.tend(lambda work, _: group.create_task(work))
        return sum(pool["ready"] for pool in self.pools.status())

    async def ask(self, image: str = "task", times: int = 4, **more: Any) -> list[ProviderSandbox | None]:
        spec = SandboxSpec.model_validate({"image": image, "limits": {"memory": 100}, **more})
        return [self.pools.take(spec, "mcqa", 8) for _ in range(times)]


async def test_a_pool_is_as_large_as_its_forecast_the_grant_and_the_total_say() -> None:
    pools = Pools(warm_total=6)
    await pools.ask(times=2)
    assert await pools.tend() == 3
    await pools.ask(times=8)
    assert await pools.tend() == 6
    pools.room = 2
    pools.pools.make_room("mcqa")
    assert await pools.tend() == 2
    assert set(pools.dropped) == {"its room was needed"}


async def test_ready_ones_take_no_memory_that_the_machine_does_not_have() -> None:
    pools = Pools()
    pools.free = 250.0
    await pools.ask(times=4)
    assert await pools.tend() == 2
    pools.free = 150.0
    assert await pools.tend() == 1
    pools.free = 0.0
    assert await pools.tend() == 0


async def test_where_room_is_short_the_kind_goes_first_that_was_not_asked_for_lately() -> None:
    pools = Pools()
    await pools.ask("old", times=2)
    pools.now = 5.0
    await pools.ask("new", times=2)
    await pools.tend()
    pools.room = 4
    pools.pools.make_room("mcqa")
    assert {pool["image"]: pool["ready"] for pool in pools.pools.status()} == {"old": 1, "new": 3}


async def test_a_kind_is_forgotten_after_the_window_and_its_ready_ones_after_seconds() -> None:
    pools = Pools(warm_idle_seconds=10, warm_window_seconds=60)
    await pools.ask()
    assert await pools.tend() > 0
    pools.now = 10.1
    assert await pools.tend() == 0
    pools.now = 60.1
    await pools.tend()
    assert not pools.pools.status()


async def test_what_was_asked_for_differently_in_anything_is_not_handed_out() -> None:
    pools = Pools()
    await pools.ask()
    await pools.tend()
    others: list[dict[str, Any]] = [
        {"limits": {"memory": 101}},
        {"limits": {"memory": 100, "cpus": 0.5}},
        {"limits": {"memory": 100, "pids": 9}},
        {"env": {"A": "1"}},
        {"labels": {"a": "b"}},
        {"ttl": 7},
        {"user": "nobody"},
        {"workdir": "/tmp"},
        {"mounts": {"/scratch": 4096}},
        {"read_only": True},
        {"network": "internet"},
    ]
    for other in others:
        assert await pools.ask(times=1, **other) == [None], other
    (same,) = await pools.ask(times=1, command=["sleep", "9"])
    assert same is not None


async def test_another_instance_or_another_spec_gets_none_of_them() -> None:
    spec = SandboxSpec(image="task")
    assert spec_key(spec, "mcqa") != spec_key(spec, "other")
    assert spec_key(spec, "mcqa") != spec_key(SandboxSpec(image="task", user="nobody"), "mcqa")
    assert spec_key(spec, "mcqa") == spec_key(SandboxSpec(image="task", command=("true",)), "mcqa")


def test_what_goes_through_the_egress_gate_is_made_when_its_rollout_is_known() -> None:
    assert can_wait(SandboxSpec(image="task"))
    assert can_wait(SandboxSpec.model_validate({"image": "task", "network": {"setup": "internet"}}))
    assert not can_wait(SandboxSpec.model_validate({"image": "task", "network": {"allow": ["a.test"]}}))
    assert not can_wait(SandboxSpec.model_validate({"image": "task", "network": {"setup": {"allow": ["a.test"]}}}))


async def test_ready_ones_go_with_the_broker_even_when_it_is_handed_over() -> None:
    engine = MemoryEngine()
    async with broker_running(engine, make_config(WARM, hand_over=True)) as running:
        sandboxes = Sandboxes(running.url, TOKEN)
        kept = await made_twice(running, sandboxes)
    assert set(engine.alive) == {one.id for one in kept}


async def test_a_pool_that_cannot_be_filled_waits_and_harms_no_request() -> None:
    async with memory_broker(make_config(WARM)) as (engine, running, sandboxes):
        await sandboxes.create(SPEC)
        engine.create_error = InfraError("no space")
        running.broker.warm.take(running.broker.policy(SandboxSpec(image="task"), WARM), "mcqa", 3)
        await until(lambda: running.broker.creates.cuts)
        engine.create_error = None
        assert (await sandboxes.create(SPEC)).id in engine.alive

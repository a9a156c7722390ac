"""Ready sandboxes: handed out once, never again, as many as are in use, none without a request."""

from __future__ import annotations

import asyncio
import time

from gym.broker.warm import can_wait, spec_key
from gym.errors import InfraError
from gym.sandbox.broker_client import Sandboxes
from gym.wire.sandbox import Grant, SandboxSpec
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


async def test_from_the_second_request_on_sandboxes_are_ready_and_each_is_handed_out_once() -> None:
    async with memory_broker(make_config(WARM)) as (engine, running, sandboxes):
        first, second = await sandboxes.create(SPEC), await sandboxes.create(SPEC)
        await until(lambda: ready(running) == 2)
        ahead = {tags.id for tags in engine.made if tags.warm}
        third = await sandboxes.create(SPEC, rollout="9-9")
        assert third.id in ahead
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


async def test_one_request_of_its_kind_makes_nothing_ready() -> None:
    async with memory_broker(make_config(WARM)) as (engine, running, sandboxes):
        await sandboxes.create({"image": "task-1"})
        await sandboxes.create({"image": "task-2"})
        running.broker.warm.tend(running.broker.tasks.spawn)
        await asyncio.sleep(0)
        assert len(engine.made) == 2


async def test_a_pool_never_holds_more_than_the_grant_says_and_goes_without_requests() -> None:
    config = make_config(WARM, warm_window_seconds=3)
    async with memory_broker(config) as (engine, running, sandboxes):
        made = await asyncio.gather(*(sandboxes.create(SPEC) for _ in range(10)))
        await until(lambda: ready(running) == 3)
        await until(lambda: not ready(running) and not running.broker.warm.status())
        await until(lambda: set(engine.alive) == {one.id for one in made})


async def test_one_that_died_while_it_waited_is_not_handed_out() -> None:
    async with memory_broker(make_config(WARM)) as (engine, running, sandboxes):
        await asyncio.gather(*(sandboxes.create(SPEC) for _ in range(2)))
        await until(lambda: ready(running) == 2)
        dead = {tags.id for tags in engine.made if tags.warm}
        for name in dead:
            engine.alive[name].memory.end("it was killed")
        fresh = await sandboxes.create(SPEC)
        assert fresh.id not in dead
        await until(lambda: not dead & set(engine.alive))


async def test_ready_ones_are_replaced_before_they_grow_old() -> None:
    async with memory_broker(make_config(WARM, warm_age_seconds=0.2)) as (engine, running, sandboxes):
        await asyncio.gather(*(sandboxes.create(SPEC) for _ in range(2)))
        await until(lambda: ready(running) == 2)
        old = {tags.id for tags in engine.made if tags.warm}
        await until(lambda: not old & set(engine.alive))
        await until(lambda: ready(running) == 2)


async def test_another_instance_or_another_spec_gets_none_of_them() -> None:
    spec = SandboxSpec(image="task")
    assert spec_key(spec, "mcqa") != spec_key(spec, "other")
    assert spec_key(spec, "mcqa") != spec_key(SandboxSpec(image="task", user="nobody"), "mcqa")
    assert spec_key(spec, "mcqa") == spec_key(SandboxSpec(image="task", ttl=5, labels={"a": "b"}), "mcqa")


def test_only_what_is_the_same_for_everybody_is_made_ahead() -> None:
    assert can_wait(SandboxSpec(image="task"))
    assert not can_wait(SandboxSpec.model_validate({"image": "task", "network": "internet"}))
    assert not can_wait(SandboxSpec.model_validate({"image": "task", "network": {"setup": "internet"}}))
    assert not can_wait(SandboxSpec.model_validate({"build": {"dockerfile": "FROM scratch"}}))


async def test_ready_ones_go_with_the_broker_even_when_it_is_handed_over() -> None:
    engine = MemoryEngine()
    async with broker_running(engine, make_config(WARM, hand_over=True)) as running:
        sandboxes = Sandboxes(running.url, TOKEN)
        kept = await asyncio.gather(*(sandboxes.create(SPEC) for _ in range(2)))
        await until(lambda: ready(running) == 2)
    assert set(engine.alive) == {one.id for one in kept}


async def test_a_pool_that_cannot_be_filled_waits_and_harms_no_request() -> None:
    async with memory_broker(make_config(WARM)) as (engine, running, sandboxes):
        await sandboxes.create(SPEC)
        engine.create_error = InfraError("no space")
        running.broker.warm.take(running.broker.policy(SandboxSpec(image="task"), WARM), "mcqa", 3)
        await until(lambda: running.broker.creates.cuts)
        engine.create_error = None
        assert (await sandboxes.create(SPEC)).id in engine.alive

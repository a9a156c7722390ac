"""What happens to sandboxes when their broker begins, stops, or gives them to the one after it."""

from __future__ import annotations

import time
from typing import Any

from gym.broker import lifecycle
from gym.broker.provider import Tags
from gym.http.pool import HttpClient
from gym.wire.sandbox import SandboxSpec
from tests.support.sandbox_broker import (
    OPERATOR_TOKEN,
    SPEC,
    MemoryEngine,
    MemoryHeld,
    broker_running,
    make_config,
    until,
)
from tests.support.sandbox_http import send


async def test_what_an_earlier_broker_left_is_adopted_or_removed() -> None:
    engine = MemoryEngine()

    async def left(name: str, **tags: Any) -> None:
        made = Tags(name, "unit", tags.pop("instance", "mcqa"), tags.pop("owner", "client"), **tags)
        made = made if made.expires else made._replace(expires=time.time() + 600)
        engine.left.append(MemoryHeld(engine, SandboxSpec(image="task"), made))

    await left("owned")
    await left("expired", expires=1.0)
    await left("warm", warm="key", owner="")
    await left("foreign", instance="gone")
    await left("ownerless", owner="")
    async with broker_running(engine, make_config(lease_seconds=1.0)) as running:
        assert engine.swept == frozenset({"owned", "ownerless"})
        reply, _ = await send(running, "POST", "/sandboxes/owned/exec", {"argv": ["x"]})
        assert reply.status == 200
        await until(lambda: "owned" not in engine.alive)  # its owner never came
        assert "ownerless" in engine.alive
    assert not engine.alive


async def test_a_broker_that_stops_removes_everything_and_takes_nothing_more() -> None:
    engine = MemoryEngine()
    async with broker_running(engine) as running:
        await send(running, "POST", "/sandboxes", SPEC)
        await lifecycle.stop(running.broker)
        reply, _ = await send(running, "POST", "/sandboxes", SPEC)
        assert reply.status == 503
        health = await HttpClient().request("GET", running.url + "/healthz", timeout=60)
        assert health.status == 503
    assert not engine.alive
    assert engine.swept == frozenset()


async def test_a_broker_that_is_handed_over_leaves_its_sandboxes() -> None:
    engine = MemoryEngine()
    async with broker_running(engine) as running:
        _, body = await send(running, "POST", "/sandboxes", SPEC)
        refused, _ = await send(running, "POST", "/handover")
        assert refused.status == 403
        done, _ = await send(running, "POST", "/handover", token=OPERATOR_TOKEN)
        assert done.status == 200
    assert list(engine.alive) == [body["id"]]
    assert engine.swept == frozenset({body["id"]})


async def test_sandboxes_that_cannot_outlive_their_broker_are_not_handed_over() -> None:
    engine = MemoryEngine()
    engine.abilities = engine.abilities._replace(lasting=False)
    async with broker_running(engine, make_config(hand_over=True)) as running:
        await send(running, "POST", "/sandboxes", SPEC)
        done, body = await send(running, "POST", "/handover", token=OPERATOR_TOKEN)
        assert (done.status, body["hand_over"]) == (200, False)
    assert not engine.alive

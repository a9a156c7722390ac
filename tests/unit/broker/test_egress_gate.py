"""A relay's first start: the address may still be held by the relay of an earlier broker, for a moment or for good."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from gym.broker.egress import gate
from gym.wire.failures import RolloutError

HELD = RolloutError("sandbox", "the egress relay could not listen")


async def start(monkeypatch: pytest.MonkeyPatch, held: int, *, closed: bool = False) -> tuple[int, bool]:
    """How often a relay was started of which the first `held` found their address taken; did one listen?"""
    starts = 0
    listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run_relay(*_: Any) -> None:
        nonlocal starts
        starts += 1
        if starts <= held:
            raise HELD
        listening.set_result(None)
        await asyncio.Event().wait()

    monkeypatch.setattr(gate, "run_relay", run_relay)
    monkeypatch.setattr(gate, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(gate, "LAST_PAUSE", 0.01)
    door, channel = SimpleNamespace(), SimpleNamespace(closed=closed)
    keeping = asyncio.create_task(gate.run_relay_forever(door, channel, listening))  # type: ignore[arg-type]
    await asyncio.wait({listening}, timeout=60)
    keeping.cancel()
    await asyncio.wait({keeping})
    return starts, listening.exception() is None


async def test_an_address_that_is_held_for_a_moment_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await start(monkeypatch, held=2) == (3, True)


async def test_one_that_stays_held_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    starts, listens = await start(monkeypatch, held=1000)
    assert not listens
    assert 3 <= starts <= 6


async def test_a_sandbox_that_is_gone_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await start(monkeypatch, held=1000, closed=True) == (1, False)

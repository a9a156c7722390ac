"""How many calls go out at once after refusals and after successes, and who gets in when."""

from __future__ import annotations

import asyncio

import pytest

from gym.server import limiter
from gym.server.limiter import Closed, Limiter

FAR = 1e9  # a deadline that never comes


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limiter, "FIRST_PAUSE", 0.0)


async def entered(limits: Limiter, count: int) -> list[float]:
    return [await limits.enter(FAR) for _ in range(count)]


async def test_of_many_calls_that_were_sent_together_one_refusal_counts() -> None:
    limits = Limiter()
    unlimited = limits.limit
    for began in await entered(limits, 16):
        limits.throttle(began, 0.0)
    assert (unlimited, limits.limit, limits.throttled) == (None, 8, 16)


async def test_refusals_halve_down_to_one_and_successes_climb_up_to_what_is_allowed() -> None:
    limits = Limiter(8)
    for _ in range(6):
        for began in await entered(limits, limits.limit or 0):
            limits.throttle(began, 0.0)
    assert limits.limit == 1
    for _ in range(20):
        for _ in await entered(limits, limits.limit or 0):
            limits.succeed()
    assert limits.limit == 8


async def test_room_that_is_not_used_is_not_enlarged() -> None:
    limits = Limiter()
    for began in await entered(limits, 16):
        limits.throttle(began, 0.0)
    for _ in range(50):
        await limits.enter(FAR)
        limits.succeed()
    assert limits.limit == 8


async def test_a_named_pause_holds_for_everybody() -> None:
    limits = Limiter()
    limits.throttle(await limits.enter(FAR), 30.0)
    now = asyncio.get_running_loop().time()
    with pytest.raises(Closed) as caught:
        await limits.enter(now + 20)
    assert 20 < caught.value.seconds <= 30


async def test_who_waits_gets_in_by_turns_and_a_place_that_nobody_takes_is_given_on() -> None:
    limits = Limiter(1)
    order: list[int] = []

    async def come(number: int) -> None:
        await limits.enter(FAR)
        order.append(number)

    await limits.enter(FAR)
    waiting = [asyncio.create_task(come(number)) for number in range(3)]
    await asyncio.sleep(0)
    limits.leave()  # the place is the first one's now, who is cancelled before it can take it
    waiting[0].cancel()
    await asyncio.wait(waiting[:2])
    limits.leave()
    await waiting[2]
    assert order == [1, 2]


async def test_a_deadline_ends_the_waiting_for_a_place() -> None:
    limits = Limiter(1)
    await limits.enter(FAR)
    with pytest.raises(Closed):
        await limits.enter(asyncio.get_running_loop().time() + 0.01)
    limits.leave()
    await limits.enter(FAR)


async def test_patience_is_measured_from_the_first_refusal_after_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limiter()
    assert limits.throttle(await limits.enter(FAR), 0.0)
    monkeypatch.setattr(limiter, "PATIENT_SECONDS", 0.0)
    assert not limits.throttle(await limits.enter(FAR), 0.0)

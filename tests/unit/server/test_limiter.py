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


async def entered(limits: Limiter, count: int) -> list[int]:
    return [await limits.enter(FAR) for _ in range(count)]


async def refuse(limits: Limiter, count: int, wait: float = 0.0) -> None:
    """One after another, as long as there is room for one."""
    for _ in range(count):
        limits.throttle(await limits.enter(FAR), wait)


async def test_of_many_calls_that_were_sent_together_the_first_few_refusals_count() -> None:
    limits = Limiter()
    unlimited = limits.limit
    for number in (await entered(limits, 16))[:10]:
        limits.throttle(number, 0.0)
    assert (unlimited, limits.limit, limits.throttled) == (None, 11, 10)


async def test_a_refusal_now_and_then_changes_nothing() -> None:
    limits = Limiter(8)
    for turn in range(400):
        number = await limits.enter(FAR)
        if turn % 100 == 0:
            limits.throttle(number, 30.0)
        else:
            limits.succeed(number)
    assert limits.limit == 8


async def test_a_provider_that_refuses_everything_is_asked_by_one_call_and_recovers_by_successes() -> None:
    limits = Limiter(8)
    for _ in range(6):
        for number in await entered(limits, limits.limit or 0):
            limits.throttle(number, 0.0)
        await asyncio.sleep(0)
    assert limits.limit == 1
    for _ in range(400):
        for number in await entered(limits, limits.limit or 0):
            limits.succeed(number)
    assert limits.limit == 8


async def test_room_that_is_not_used_is_not_enlarged() -> None:
    limits = Limiter()
    for number in await entered(limits, 16):
        limits.throttle(number, 0.0)
    before = limits.limit
    for _ in range(50):
        limits.succeed(await limits.enter(FAR))
    assert before == 1
    assert (limits.limit or 0) <= 3  # twice what is used, and one


async def test_a_named_pause_holds_for_its_own_call_and_for_all_once_nothing_comes_through() -> None:
    limits = Limiter(1)
    await refuse(limits, 3, 30.0)
    limits.throttle(await limits.enter(FAR), 30.0)
    now = asyncio.get_running_loop().time()
    with pytest.raises(Closed) as caught:
        await limits.enter(now + 20)
    assert 20 < caught.value.seconds <= 30


async def test_a_wrong_pause_does_not_close_a_provider_for_long() -> None:
    limits = Limiter(1)
    await refuse(limits, 4, 3600.0)
    with pytest.raises(Closed) as caught:
        await limits.enter(asyncio.get_running_loop().time() + 1)
    assert caught.value.seconds <= limiter.LONGEST_SHUT


async def test_who_waits_gets_in_by_turns_and_a_place_that_is_not_taken_is_given_on() -> None:
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


async def test_retries_end_by_the_time_since_the_first_refusal_after_a_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = Limiter()
    assert limits.throttle(await limits.enter(FAR), 0.0)
    monkeypatch.setattr(limiter, "REFUSED_TIMEOUT_SECONDS", 0.0)
    assert not limits.throttle(await limits.enter(FAR), 0.0)


async def test_what_is_held_back_is_reported_once_there_was_a_refusal() -> None:
    limits = Limiter(2)
    assert limits.status() == {}
    limits.throttle(await limits.enter(FAR), 1.0)
    resting = asyncio.create_task(limits.rest(FAR))
    await entered(limits, 2)
    waiting = asyncio.create_task(limits.enter(FAR))
    await asyncio.sleep(0)
    status = limits.status()
    assert (status["throttled"], status["refused_lately"], status["waiting"], status["at_once"]) == (1, 1, 2, 2)
    for task in (resting, waiting):
        task.cancel()
    await asyncio.gather(resting, waiting, return_exceptions=True)
    assert limits.status()["waiting"] == 0


async def test_calls_that_wait_for_the_configured_limit_are_counted_before_anything_was_refused() -> None:
    limits, free = Limiter(2), Limiter()
    numbers = await entered(limits, 2)
    await entered(free, 2)
    before = limits.status(), free.status()
    waiting = asyncio.create_task(limits.enter(FAR))
    await asyncio.sleep(0)
    status = limits.status()
    limits.succeed(numbers[0])
    limits.succeed(await waiting)
    assert before == ({}, {})
    assert (status["waiting"], status["at_once"], status["throttled"]) == (1, 2, 0)
    assert limits.status() == {}

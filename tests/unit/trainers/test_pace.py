"""Places that change in number, a pause, and a wait until no place is taken."""

from __future__ import annotations

import asyncio

from gym.trainers.pace import Pace


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def take(pace: Pace, done: list[int], number: int) -> None:
    await pace.take()
    done.append(number)


async def test_places_go_round_in_order_and_follow_their_number() -> None:
    pace, done = Pace(2), []  # type: ignore[var-annotated]
    tasks = [asyncio.create_task(take(pace, done, number)) for number in range(6)]
    await settle()
    assert (done, pace.inside, pace.waiting) == ([0, 1], 2, 4)
    pace.give()
    await settle()
    assert done == [0, 1, 2]
    pace.resize(4)
    await settle()
    assert done == [0, 1, 2, 3, 4]
    pace.resize(1)
    for _ in range(3):
        pace.give()
    await settle()
    assert (done, pace.inside) == ([0, 1, 2, 3, 4], 1)
    pace.give()
    await asyncio.gather(*tasks)
    assert done == [0, 1, 2, 3, 4, 5]


async def test_no_one_enters_during_a_pause_and_its_end_lets_them_in() -> None:
    pace, done = Pace(2), []  # type: ignore[var-annotated]
    await pace.take()
    pace.pause()
    task = asyncio.create_task(take(pace, done, 1))
    empty = asyncio.create_task(pace.wait_until_empty())
    await settle()
    assert (done, empty.done()) == ([], False)
    pace.give()
    await empty
    await settle()
    assert done == []
    pace.resume()
    await task
    assert (done, pace.inside) == ([1], 1)


async def test_who_gives_up_waiting_costs_no_place() -> None:
    pace, done = Pace(1), []  # type: ignore[var-annotated]
    await pace.take()
    first, second, third = (asyncio.create_task(take(pace, done, number)) for number in range(3))
    await settle()
    first.cancel()
    await settle()
    pace.give()  # it calls the second, which is cancelled before it hears of it
    second.cancel()
    await third
    assert (done, pace.inside, pace.waiting) == ([2], 1, 0)
    pace.give()
    assert pace.inside == 0

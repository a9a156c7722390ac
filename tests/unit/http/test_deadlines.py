"""Many deadlines with one timer, and dials that wait for their turn, in simulated time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from contextlib import suppress

from gym.http.deadlines import Deadlines
from gym.http.dial import DIALS_AT_ONCE, DialLimiter
from tests.support.simulated import simulate

LIMIT = 5.0


def now() -> float:
    return asyncio.get_running_loop().time()


class Waiting:
    def __init__(self, due: float) -> None:
        self.due = due
        self.ended: float | None = None

    @property
    def waits(self) -> bool:
        return self.ended is None

    def expire(self) -> None:
        self.ended = now()


def watch(seconds: Iterable[float]) -> tuple[list[Waiting], Deadlines]:
    waiting = [Waiting(now() + one) for one in seconds]
    deadlines = Deadlines(waiting)
    for one in waiting:
        if one.due < deadlines.next:
            deadlines.ring_at(one.due)
    return waiting, deadlines


def test_each_ends_when_it_is_due() -> None:
    async def work() -> None:
        waiting, deadlines = watch((3.0, 1.0, 2.0, 1.0, math.inf))
        await asyncio.sleep(60)
        assert [one.ended for one in waiting] == [3.0, 1.0, 2.0, 1.0, None]
        assert deadlines.next == math.inf  # no timer is left for what has no deadline

    simulate(work())


def test_what_no_longer_waits_is_left_alone_and_the_next_one_rings() -> None:
    async def work() -> None:
        waiting, _ = watch((1.0, 2.0))
        waiting[0].ended = 0.0
        await asyncio.sleep(60)
        assert [one.ended for one in waiting] == [0.0, 2.0]

    simulate(work())


def test_an_earlier_deadline_that_comes_later_moves_the_timer() -> None:
    async def work() -> None:
        waiting, deadlines = watch((100.0,))
        await asyncio.sleep(1)
        waiting.append(Waiting(now() + 1))
        deadlines.ring_at(waiting[1].due)
        await asyncio.sleep(200)
        assert [one.ended for one in waiting] == [100.0, 2.0]

    simulate(work())


def test_thousands_that_are_due_one_after_the_other_are_few_looks() -> None:
    async def work() -> None:
        looks = 0

        class Counted(list[Waiting]):
            def __iter__(self):  # type: ignore[no-untyped-def]
                nonlocal looks
                looks += 1
                return super().__iter__()

        waiting = Counted(Waiting(1.0 + number / 10_000) for number in range(1000))
        Deadlines(waiting).ring_at(1.0)
        await asyncio.sleep(60)
        assert all(one.ended is not None and 0 <= one.ended - one.due < 0.01 for one in waiting)
        assert looks < 30

    simulate(work())


def test_closed_is_silent() -> None:
    async def work() -> None:
        waiting, deadlines = watch((1.0,))
        deadlines.close()
        await asyncio.sleep(60)
        assert waiting[0].ended is None

    simulate(work())


async def fill(limiter: DialLimiter) -> None:
    for _ in range(DIALS_AT_ONCE):
        await limiter.enter(LIMIT, math.inf)


def test_dials_beyond_the_limit_come_in_turn() -> None:
    async def work() -> None:
        limiter, entered = DialLimiter(), list[int]()

        async def dial(number: int) -> None:
            await limiter.enter(LIMIT, math.inf)
            entered.append(number)

        await fill(limiter)
        tasks = [asyncio.create_task(dial(number)) for number in range(3)]
        await asyncio.sleep(0)
        assert entered == []
        for count in (1, 2, 3):
            limiter.leave(opened=True)
            while len(entered) < count:
                await asyncio.sleep(0)
        assert entered == [0, 1, 2]
        await asyncio.gather(*tasks)

    simulate(work())


def test_a_dial_is_given_up_where_the_peer_takes_no_connection() -> None:
    async def work() -> None:
        limiter = DialLimiter()
        await fill(limiter)
        with suppress(TimeoutError):
            await limiter.enter(LIMIT, math.inf)
            raise AssertionError("it got a turn")
        assert now() == LIMIT
        limiter.leave(opened=True)
        await limiter.enter(LIMIT, math.inf)  # no turn was lost on the one that was given up

    simulate(work())


def test_a_dial_goes_on_waiting_while_the_peer_takes_others() -> None:
    async def work() -> None:
        limiter = DialLimiter()
        await fill(limiter)
        waits = asyncio.create_task(limiter.enter(LIMIT, math.inf))
        ends_first = asyncio.create_task(limiter.enter(LIMIT, 12.0))
        for _ in range(4):  # others leave, and others again take their turns first
            await asyncio.sleep(4)
            limiter.opened = now()
        assert not waits.done()
        assert isinstance(ends_first.exception(), TimeoutError)
        await asyncio.wait({waits})
        assert isinstance(waits.exception(), TimeoutError)
        assert 16 + LIMIT <= now() <= 16 + 2 * LIMIT

    simulate(work())


def test_a_cancelled_dial_hands_its_turn_on() -> None:
    async def work() -> None:
        limiter = DialLimiter()
        await fill(limiter)
        first, second = (asyncio.create_task(limiter.enter(LIMIT, math.inf)) for _ in range(2))
        await asyncio.sleep(0)
        limiter.leave(opened=True)  # it is the first one's
        first.cancel()
        await asyncio.wait({first, second})
        assert first.cancelled()
        assert second.exception() is None

    simulate(work())

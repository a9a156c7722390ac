"""What waits before the engine: turns between rollouts, deadlines, limits that follow the engine's answers."""

from __future__ import annotations

import asyncio

import pytest

from gym.broker.admission import Admission
from gym.broker.engine_breaker import EngineBreaker
from gym.broker.errors import Busy, Unavailable
from gym.errors import InfraError

FAR = float("inf")


def make_gate(most: int = 1, queue: int = 100, slow: float = 10.0) -> Admission:
    return Admission("create a sandbox", max_limit=most, queue=queue, slow=slow)


async def visit(gate: Admission, lane: str, served: list[str], ends: float = FAR) -> None:
    async with gate.slot_for(lane, ends):
        served.append(lane)
        await asyncio.sleep(0)


async def test_rollouts_take_turns_however_many_requests_one_of_them_sends() -> None:
    gate, served = make_gate(), list[str]()
    async with asyncio.TaskGroup() as group, gate.slot_for("first", FAR):
        for _ in range(10):
            group.create_task(visit(gate, "greedy", served))
        await asyncio.sleep(0)
        for lane in ("a", "b"):
            group.create_task(visit(gate, lane, served))
        await asyncio.sleep(0)
    assert served[:3] == ["greedy", "a", "b"]
    assert served.count("greedy") == 10


async def test_within_a_rollout_the_first_comes_first() -> None:
    gate, served = make_gate(), list[int]()

    async def one(number: int) -> None:
        async with gate.slot_for("same", FAR):
            served.append(number)

    async with asyncio.TaskGroup() as group, gate.slot_for("same", FAR):
        for number in range(5):
            group.create_task(one(number))
        await asyncio.sleep(0)
    assert served == [0, 1, 2, 3, 4]


async def test_a_full_queue_sends_away_with_a_time_to_come_again() -> None:
    gate, served = make_gate(queue=1), list[str]()
    async with asyncio.TaskGroup() as group, gate.slot_for("a", FAR):
        group.create_task(visit(gate, "b", served))
        await asyncio.sleep(0)
        with pytest.raises(Busy) as refused:
            await visit(gate, "c", served)
    assert refused.value.status == 429
    assert refused.value.retry_after > 0
    assert served == ["b"]
    assert gate.status()["refused"] == 1


async def test_a_deadline_that_passes_in_the_queue_gives_the_place_to_the_next() -> None:
    gate, served = make_gate(), list[str]()
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group, gate.slot_for("a", FAR):
        with pytest.raises(Busy, match="deadline"):
            await visit(gate, "late", served, loop.time() + 0.01)
        group.create_task(visit(gate, "b", served))
        await asyncio.sleep(0)
    assert served == ["b"]
    assert gate.status()["waiting"] == 0


async def test_a_cancelled_visitor_leaves_no_place_behind() -> None:
    gate, served = make_gate(), list[str]()
    async with gate.slot_for("a", FAR):
        task = asyncio.get_running_loop().create_task(visit(gate, "b", served))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert gate.status()["in_flight"] == gate.status()["waiting"] == 0
    await visit(gate, "c", served)
    assert served == ["c"]


async def test_who_gives_up_in_the_middle_of_a_lane_leaves_the_order_of_the_others() -> None:
    gate, served = make_gate(), list[str]()
    loop = asyncio.get_running_loop()
    async with gate.slot_for("a", FAR):
        tasks = {name: loop.create_task(gate_visit(gate, name, served)) for name in "pqrst"}
        await asyncio.sleep(0)
        for name in "pr":
            tasks[name].cancel()
        await asyncio.sleep(0)
        assert gate.status()["waiting"] == 3
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert served == ["q", "s", "t"]
    assert gate.status()["in_flight"] == gate.status()["waiting"] == 0


async def gate_visit(gate: Admission, name: str, served: list[str]) -> None:
    async with gate.slot_for("one lane", FAR):
        served.append(name)


async def test_an_engine_that_fails_is_asked_less_at_once_and_more_again_when_it_is_well() -> None:
    gate = make_gate(most=10)
    with pytest.raises(InfraError):
        async with gate.slot_for("a", FAR):
            raise InfraError("no space left")
    cut = gate.status()["limit"]
    assert cut < 10
    for _ in range(200):
        async with gate.slot_for("a", FAR):
            pass
    assert gate.status()["limit"] > cut


async def test_slow_visits_cut_the_limit_and_the_askers_own_faults_do_not() -> None:
    gate = make_gate(most=10, slow=1.0)
    with pytest.raises(ValueError, match="row"):
        async with gate.slot_for("a", FAR):
            raise ValueError("row")
    assert gate.status()["limit"] == 10
    async with gate.slot_for("a", FAR) as one:
        one.seconds = 5.0
    assert gate.status()["limit"] < 10


async def test_work_that_can_wait_gets_no_place_while_a_request_waits() -> None:
    gate, served = make_gate(most=3), list[str]()
    first = gate.try_enter()
    assert first is not None
    second = gate.try_enter()
    assert second is not None
    assert gate.try_enter() is None  # one place stays free for the next request
    await visit(gate, "a", served)
    gate.leave(first)
    gate.leave(second)
    assert gate.status()["in_flight"] == 0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_breaker_opens_after_failures_in_a_row_and_lets_one_probe_through_later() -> None:
    clock = Clock()
    breaker = EngineBreaker(threshold=3, clock=clock)
    for _ in range(2):
        breaker.failed("no answer")
    breaker.check()
    breaker.failed("no answer")
    with pytest.raises(Unavailable, match="no answer") as refused:
        breaker.check()
    assert refused.value.status == 503
    clock.now += 60
    breaker.check()
    with pytest.raises(Unavailable):
        breaker.check()  # the probe is under way
    breaker.succeeded()
    breaker.check()
    assert breaker.state == "closed"


def test_a_failed_probe_opens_the_breaker_for_longer() -> None:
    clock = Clock()
    breaker = EngineBreaker(threshold=1, clock=clock)
    breaker.failed("gone")
    clock.now += 1.5
    breaker.check()
    breaker.failed("gone still")
    clock.now += 1.5
    with pytest.raises(Unavailable):
        breaker.check()
    clock.now += 1.0
    breaker.check()


def test_a_probe_that_was_refused_for_its_own_fault_lets_the_next_one_try() -> None:
    clock = Clock()
    breaker = EngineBreaker(threshold=1, clock=clock)
    breaker.failed("gone")
    clock.now += 2
    breaker.check()
    breaker.undecided()
    breaker.check()

"""What the breaker makes of attempts of very different length, in simulated time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from gym.collect.circuit_breaker import CircuitBreaker
from gym.wire.failures import RolloutError
from tests.support.simulated import simulate


@dataclass
class Run:
    """Workers that go on until the time is up; `attempt` says how long one takes and whether it fails."""

    attempt: Callable[[float], tuple[float, bool]]
    workers: int = 64
    reasons: list[tuple[float, str]] = field(default_factory=list)
    failed: int = 0

    async def go(self, seconds: float) -> Run:
        loop = asyncio.get_running_loop()
        breaker = CircuitBreaker("math", first_wait=1, max_pause=60, on_change=self._tell, clock=loop.time)
        tasks = [loop.create_task(self._work(breaker, number)) for number in range(self.workers)]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return self

    async def _work(self, breaker: CircuitBreaker, worker: int) -> None:
        row = 0
        while await breaker.admit():
            row += 1
            number = breaker.begin(f"{worker}/{row}")
            seconds, fails = self.attempt(asyncio.get_running_loop().time())
            await asyncio.sleep(seconds)
            self.failed += fails
            breaker.record(number, RolloutError("model", "refused", server="policy_model") if fails else None)

    def _tell(self, agent: str, reason: str) -> None:
        self.reasons.append((asyncio.get_running_loop().time(), reason))


def fail_by_chance(share: float, failing: float, succeeding: float) -> Callable[[float], tuple[float, bool]]:
    def attempt(now: float) -> tuple[float, bool]:
        fails = random.random() < share
        return random.uniform(0.5, 1.5) * (failing if fails else succeeding), fails

    return attempt


def break_at(moment: float, seconds: float) -> Callable[[float], tuple[float, bool]]:
    """Attempts of 1 to 2 times `seconds`; from that moment on all fail, those under way as well."""

    def attempt(now: float) -> tuple[float, bool]:
        took = random.uniform(1, 2) * seconds
        if now >= moment:
            return 0.05, True
        return (moment - now + 0.05, True) if now + took > moment else (took, False)

    return attempt


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.05, 0.2])
def test_failures_that_end_long_before_successes_pause_nothing(share: float, seed: int) -> None:
    run = simulate(Run(fail_by_chance(share, 0.1, 20)).go(300), seed)
    assert run.failed > 40
    assert run.reasons == []


@pytest.mark.parametrize("workers", [64, 1000])
def test_many_workers_that_start_together_are_not_judged_by_the_first_to_fail(workers: int) -> None:
    run = simulate(Run(fail_by_chance(0.05, 0.05, 120), workers).go(240))
    assert run.reasons == []


@pytest.mark.parametrize("seconds", [0.2, 5, 60])
@pytest.mark.parametrize("seed", range(3))
def test_an_outage_pauses_at_once_however_long_attempts_take(seconds: float, seed: int) -> None:
    moment = seconds * 4.5
    run = simulate(Run(break_at(moment, seconds)).go(moment + 2), seed)
    assert run.reasons
    assert moment < run.reasons[0][0] < moment + 1


def test_an_outage_from_the_start_pauses_at_once() -> None:
    run = simulate(Run(break_at(0, 1)).go(2))
    assert run.reasons[0][1] == (
        "policy_model fails (model, 8 of the last 8 attempts; 63 still running are too young to count): refused"
    )


def test_half_of_the_attempts_failing_fast_is_not_an_outage_and_nearly_all_is_one() -> None:
    assert simulate(Run(fail_by_chance(0.4, 0.1, 5)).go(60)).reasons == []
    assert simulate(Run(fail_by_chance(0.95, 0.1, 5)).go(60)).reasons


def test_what_began_before_a_pause_ended_says_nothing_of_what_comes() -> None:
    one = CircuitBreaker("math", first_wait=1, max_pause=60, on_change=lambda agent, reason: None)
    hung = [one.begin(f"hung {number}") for number in range(40)]
    broken = RolloutError("model", "refused", server="policy_model")
    while one.record(one.begin(f"row {one._began}"), broken):
        pass
    one.record(hung.pop(), None)
    assert one.reason == ""
    assert all(one.record(number, broken) for number in hung)
    assert one.reason == ""

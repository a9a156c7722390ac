"""Noise is not a limit: callers through a real `Upstream`, providers that are models, time that is simulated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.support.providers import Load, Provider, Refuses, Simulated, at_once, chance, either, never, outage, rate
from tests.support.simulated import simulate

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))]  # each is a minute of CPU time in all
WRONG = ["1000000000", "-5", "nan", "Fri, 31 Dec 9999 23:59:59 GMT", "Wed, 21 Oct 2015 07:28:00 GMT", "soon"]


def run(
    refuses: Refuses, seed: int, seconds: float = 60, callers: int = 64, **provider: object
) -> tuple[Load, Provider]:
    one = Provider(refuses, **provider)  # type: ignore[arg-type]

    async def work() -> Load:
        return await Load().run(Simulated(one, max_concurrent=64), callers, seconds)

    return simulate(work(), seed), one


@pytest.mark.parametrize("seed", SEEDS)
def test_refusals_by_chance_cost_little_of_the_throughput(seed: int) -> None:
    ideal, _ = run(never(), seed, callers=128)
    noisy, provider = run(chance(0.05), seed, callers=128)
    assert provider.share_refused > 0.04
    assert noisy.rate > 0.8 * ideal.rate
    assert not noisy.failures


@pytest.mark.parametrize("seed", SEEDS)
def test_as_many_callers_as_places_lose_only_the_waits_that_were_asked_of_them(seed: int) -> None:
    """A call takes 0.2 s, and one in 19 waits another 1.03 s: no caller that obeys gets more than 0.79 of the ideal."""
    ideal, _ = run(never(), seed)
    noisy, _ = run(chance(0.05), seed)
    assert noisy.rate > 0.9 * 0.79 * ideal.rate


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("burst", [0.2, 1.0])
def test_a_limit_of_so_many_calls_a_second_is_found_and_kept_to(burst: float, seed: int) -> None:
    load, provider = run(rate(100, burst), seed, 300)
    assert provider.share_refused <= 0.02
    assert load.rate > 85


@pytest.mark.parametrize("seed", SEEDS)
def test_a_limit_of_so_many_at_once_is_found_and_kept_to(seed: int) -> None:
    load, provider = run(at_once(20), seed, 300)
    assert provider.share_refused <= 0.02
    assert load.rate > 85


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("limit", "ideal"), [(partial(rate, 20), 20), (partial(at_once, 2), 10), (partial(at_once, 8), 40)]
)
def test_a_small_limit_is_found_by_few_refusals(limit: Callable[[], Refuses], ideal: float, seed: int) -> None:
    """All places at once, in the first moment, were most of them."""
    load, provider = run(limit(), seed, 300)
    assert provider.share_refused <= 0.02
    assert load.rate > 0.7 * ideal


def test_places_open_within_seconds_when_nothing_is_refused() -> None:
    load, _ = run(never(), 0, 2)
    assert load.rate > 0.5 * 320


@pytest.mark.parametrize("seed", SEEDS)
def test_a_limit_that_changes_is_followed_down_and_up_again(seed: int) -> None:
    load, provider = run(at_once(lambda now: 10 if 100 <= now < 200 else 40), seed, 300)
    assert provider.share_refused <= 0.02
    assert load.rate > 110  # of 150


@pytest.mark.parametrize("headers", [{"retry-after": "1"}, {}])
@pytest.mark.parametrize("status", [429, 503])
def test_a_provider_that_refuses_everything_for_a_while_is_left_alone_and_then_used_again(
    headers: dict[str, str], status: int
) -> None:
    refusal = headers if status == 429 else {"retry-after": "1"}
    load, provider = run(outage(30, 60), 0, 120, status=status, headers=refusal)
    assert not load.failures
    assert provider.share_refused <= 0.02
    assert load.rate > 0.8 * 320 * 90 / 120


@pytest.mark.parametrize("value", WRONG)
def test_a_time_that_cannot_be_meant_holds_no_call_up(value: str) -> None:
    load, _ = run(chance(0.05), 0, headers={"retry-after": value})
    assert not load.failures
    assert load.rate > 0.8 * 320


def test_noise_on_top_of_a_limit_takes_neither_for_the_other_for_long() -> None:
    load, provider = run(either(chance(0.05), rate(100)), 0, 300)
    assert load.rate > 75
    assert provider.share_refused < 0.15

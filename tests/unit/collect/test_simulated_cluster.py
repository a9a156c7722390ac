"""A small simulated cluster, as tests/bench/simulate.py has large: each rollout ends once, no part does too much."""

from __future__ import annotations

import pytest

from tests.bench.simulate import ladder, million
from tests.support.simulated_collection import simulate_collection
from tests.support.simulated_parts import ServiceTime
from tests.support.simulated_settings import CpuTimes, Outage, Result, Scale, Work

NODES, ROLLOUTS = 50, 5_000


def assert_sound(result: Result, rollouts: int = ROLLOUTS) -> None:
    """Each rollout ended once (the sink raises at a key that comes twice), no part did more than it can."""
    assert result.rollouts == rollouts
    assert max(result.used.values()) <= 1 + 1e-6
    assert max(result.most_used.values()) <= 1 + 1e-6


def assert_littles_law(result: Result) -> None:
    """The cluster counts what is under way, the collector how long each took: two counts of the same."""
    assert result.in_flight == pytest.approx(result.attempts / result.seconds * result.latency, rel=0.02)


def test_a_cluster_does_what_its_policy_can() -> None:
    work = Work(policy=ServiceTime(10.0, 0.5), policy_places=8)
    result = simulate_collection(Scale(nodes=NODES, concurrency=600), work, CpuTimes(), ROLLOUTS, repeats=50)
    assert_sound(result)
    assert_littles_law(result)
    assert result.limit == "policy"
    assert result.rate == pytest.approx(NODES * 8 / 10.0, rel=0.05)


def test_too_few_rollouts_at_once_are_named_as_the_limit() -> None:
    result = simulate_collection(Scale(nodes=NODES, concurrency=64), Work(), CpuTimes(), ROLLOUTS, repeats=50)
    assert_sound(result)
    assert_littles_law(result)
    assert result.limit == "--concurrency"
    assert result.rate == pytest.approx(64 / result.latency, rel=0.05)


def test_shards_by_routers_end_every_rollout_once() -> None:
    scale = Scale(nodes=NODES, stacks=2, collectors=2, concurrency=100, routed=True)
    slow_router = CpuTimes(router=ServiceTime(0.1))  # of 2 cores each: 40 a second
    result = simulate_collection(scale, Work(policy=ServiceTime(1.0)), slow_router, 2_000, repeats=50)
    assert_sound(result, 2_000)
    assert_littles_law(result)
    assert result.limit == "router"
    assert result.rate == pytest.approx(40.0, rel=0.05)


def test_failures_and_a_dead_node_lose_nothing_and_pause_nothing() -> None:
    work = Work(policy=ServiceTime(5.0, 0.5), failures=0.02)
    outage = Outage(node=3, begins=5.0, ends=30.0)
    result = simulate_collection(
        Scale(nodes=NODES, concurrency=400), work, CpuTimes(), ROLLOUTS, repeats=50, outage=outage
    )
    assert_sound(result)
    assert result.retries > 0
    assert result.attempts == result.rollouts + result.retries
    assert result.failed < 5  # three attempts of one row
    assert result.pauses == 0


def test_sandboxes_are_made_by_the_real_broker_within_what_engine_and_registry_can() -> None:
    work = Work("sandbox", images=20, policy=ServiceTime(2.0), commands=ServiceTime(1.0, 0.5))
    cpu = CpuTimes(engine=ServiceTime(0.1, 0.3))
    result = simulate_collection(Scale(nodes=5, stacks=5, concurrency=24, warm=2), work, cpu, 1_000, repeats=10)
    assert_sound(result, 1_000)
    assert_littles_law(result)
    assert result.limit == "sandbox cores"
    assert result.rate == pytest.approx(5 * 4 / 1.0, rel=0.15)
    assert result.most_used["engine"] > 0.1
    assert result.most_used["registry"] > 0
    assert result.failed == 0


def test_the_same_seed_gives_the_same_run() -> None:
    scale, work = Scale(nodes=5, concurrency=64), Work(policy=ServiceTime(2.0, 0.5), failures=0.05)
    one, same, other = (
        simulate_collection(scale, work, CpuTimes(), 1_000, repeats=10, seed=seed) for seed in (1, 1, 2)
    )
    assert one.seconds == same.seconds
    assert one.seconds != other.seconds


def test_the_script_adds_nodes_until_they_bend_and_changes_what_moves_them() -> None:
    work = Work("text", policy=ServiceTime(1.0, 0.2), policy_places=64)
    heading, *lines = ladder(work, Scale(), (1, 2))
    assert heading.startswith("text\n")
    assert [line.split()[0] for line in lines] == ["1", "2", "2"]
    assert "policy" in lines[0]
    assert "--concurrency" in lines[1]
    assert lines[2].endswith("--concurrency 145")


def test_the_long_run_counts_every_rollout() -> None:
    text = "\n".join(million(nodes=3, rollouts=1280))
    assert "3 nodes, 1,280 rollouts" in text
    assert "ended 1,280, failed 0, attempts 1,28" in text
    assert "the plan of" in text

"""Numbers described from the disk are those that a list in memory would give."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym.collect import columns
from gym.collect.aggregates import AgentRows
from gym.collect.columns import Column
from gym.collect.spilled import SpilledTries
from gym.collect.study.tries import Tries, extra_metrics

NUMBERS = st.one_of(st.floats(-1e9, 1e9), st.integers(-5, 5).map(float), st.just(-0.0))


def described(values: list[float]) -> dict[str, float]:
    column = Column()
    try:
        for value in values:
            column.append(value)
        return column.describe("x")
    finally:
        column.close()


def expected(values: list[float]) -> dict[str, float]:
    return {
        "mean/x": statistics.fmean(values),
        "max/x": max(values),
        "min/x": min(values),
        "median/x": statistics.median(values),
        "std/x": statistics.stdev(values) if len(values) > 1 else 0.0,
    }


@pytest.fixture(params=["counted", "on disk", "on disk, looked for bit by bit"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param != "counted":
        monkeypatch.setattr(columns, "MOST_DISTINCT", 1)
        monkeypatch.setattr(columns, "_CHUNK", 4)
    if "bit" in request.param:
        monkeypatch.setattr(columns, "_MOST_SORTED", 0)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "values", [[1.0], [2.0, 1.0], [0.0, -0.0, 1e-30, -1e30], [float(n % 7) for n in range(100)], [1.5, 1.25] * 9]
)
def test_each_way_of_holding_numbers_describes_them_alike(values: list[float]) -> None:
    assert described(values) == pytest.approx(expected(values))


@settings(deadline=None)
@given(st.lists(NUMBERS, min_size=1, max_size=40))
def test_any_numbers_have_their_own_median_on_disk(values: list[float]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "MOST_DISTINCT", 1)
        patch.setattr(columns, "_MOST_SORTED", 2)
        assert described(values) == pytest.approx(expected(values), rel=1e-6, abs=1e-6)


def fill(tries: Tries, spill_at: int = -1) -> Tries:
    """Three hundred tasks by turns, three rollouts each, with answers."""
    for number in range(900):
        task, repeat = number % 300, number // 300
        fields: dict[str, Any] = {"_ng_task_index": task, "_ng_rollout_index": repeat}
        tries.add({**fields, "extracted_answer": "ABCD"[(task * repeat) % 4]}, float((task + repeat) % 3 == 0))
        tries = SpilledTries(tries) if number == spill_at else tries
    return tries


def test_tries_on_disk_give_the_metrics_of_those_in_memory() -> None:
    whole = extra_metrics(fill(Tries()))
    spilled = fill(Tries(), spill_at=400)
    assert isinstance(spilled, SpilledTries)
    found = extra_metrics(spilled)
    spilled.close()
    exact = {name: value for name, value in whole.items() if "/ci_" not in name}
    assert {name: found[name] for name in exact} == pytest.approx(exact)
    assert found == pytest.approx(whole, abs=2.0)  # the intervals draw in another order
    assert len(exact) > 10


def test_closing_twice_or_early_does_no_harm() -> None:
    rows = AgentRows()
    rows.add({"reward": 1.0})
    rows.close()
    rows.close()

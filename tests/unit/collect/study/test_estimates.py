"""Intervals and the paired test: known answers, the same ones each time."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym.collect.study import estimates
from gym.collect.study.estimates import Interval, Sample, p_value_in_steps
from gym.collect.study.in_steps import finish


def test_the_interval_of_half_right_answers_is_that_of_a_coin() -> None:
    low, high = Sample([0.0, 1.0] * 200).interval or (0.0, 0.0)
    # A binomial share of 400 has a standard error of 0.025.
    assert low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.006)
    assert high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.006)


def test_the_same_values_give_the_same_interval() -> None:
    values = [random.Random(1).random() for _ in range(50)]
    first = Sample(values).interval
    estimates._draws.cache_clear()
    assert Sample(values).interval == first


def test_one_value_alone_has_no_interval_and_equal_values_a_narrow_one() -> None:
    assert Sample([1.0]).interval is None
    assert Sample([0.1] * 10).interval == pytest.approx(Interval(0.1, 0.1))


def test_many_values_hold_little_and_their_interval_agrees_with_the_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(2)
    values = [source.choice([0.0, 0.5, 1.0]) for _ in range(900)]
    drawn = Sample(values).interval
    monkeypatch.setattr(estimates, "MAX_DRAWN", 100)
    many = Sample(values)
    assert len(many._values) == 100
    assert many.mean == pytest.approx(statistics.fmean(values))
    assert many.deviation == pytest.approx(statistics.stdev(values))
    assert many.interval == pytest.approx(drawn, abs=0.004)


@pytest.mark.parametrize("few", [1.0, 0.0])
def test_an_interval_of_many_values_stays_within_them_as_a_resampled_one_does(few: float) -> None:
    low, high = Sample([few, *[1.0 - few] * 2000]).interval or (-1.0, 2.0)
    assert 0.0 <= low < high <= 1.0
    assert low == 0.0 or high == 1.0


@pytest.mark.parametrize(
    ("differences", "chance"),
    [
        ([], 1.0),
        ([0.0, 0.0], 1.0),
        ([1.0], 1.0),
        ([1.0, 1.0], 0.5),
        ([1.0] * 6, 2 / 2**6),
        ([1.0, 1.0, -1.0], 1.0),
        ([0.3, 0.2, 0.1], 2 / 8),
    ],
)
def test_small_samples_are_enumerated(differences: list[float], chance: float) -> None:
    assert paired_p_value(differences) == chance


def test_drawn_and_normal_p_values_agree_with_the_enumerated_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = [1.0] * 9 + [-1.0] * 4
    exact = paired_p_value(differences)
    monkeypatch.setattr(estimates, "EXACT", 5)
    assert paired_p_value(differences) == pytest.approx(exact, abs=0.015)
    large = [1.0] * 330 + [-1.0] * 270
    drawn = paired_p_value(large)
    monkeypatch.setattr(estimates, "MAX_FLIPPED", 500)
    assert paired_p_value(large) == pytest.approx(drawn, abs=0.01)
    assert 0.005 < drawn < 0.03


def paired_p_value(differences: list[float]) -> float:
    return finish(p_value_in_steps(differences))


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), max_size=20))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_p_value_is_a_chance_and_does_not_care_for_the_sign(differences: list[float]) -> None:
    value = paired_p_value(differences)
    assert 0.0 < value <= 1.0
    assert paired_p_value([-one for one in differences]) == pytest.approx(value, abs=0.03)

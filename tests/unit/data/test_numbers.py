"""Five figures of a series: exact, the same however it is cut, and rounded as the contract rounds."""

from __future__ import annotations

import statistics
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym.data.numbers import Numbers, round_figure

VALUES = st.lists(st.one_of(st.integers(-(10**20), 10**20), st.floats(-1e9, 1e9)), min_size=2, max_size=40)


def observed(values: list[float]) -> Numbers:
    numbers = Numbers()
    for value in values:
        numbers.observe(value)
    return numbers


@given(VALUES, st.data())
def test_figures_do_not_depend_on_where_a_series_is_cut(values: list[float], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(values)))
    parts = Numbers()
    parts.add(observed(values[cut:]))
    parts.add(observed(values[:cut]))
    assert parts.to_json() == observed(values).to_json()


@given(VALUES)
def test_figures_are_those_of_the_textbook(values: list[float]) -> None:
    numbers = observed(values)
    assert numbers.mean() == pytest.approx(statistics.mean(values), rel=1e-9, abs=1e-6)
    assert numbers.deviation() == pytest.approx(statistics.stdev(values), rel=1e-9, abs=1e-6)
    assert (numbers.min, numbers.max) == (min(values), max(values))


def test_a_part_may_count_several_times() -> None:
    numbers = Numbers()
    numbers.add(observed([1, 2.5]), times=3)
    assert numbers.to_json() == observed([1, 2.5] * 3).to_json()


def test_nothing_is_all_zeros_and_one_value_has_no_deviation() -> None:
    names = ("Total # non-null values", "Average", "Min", "Max", "Standard deviation")
    assert Numbers().to_json() == dict.fromkeys(names, 0)
    assert list(observed([0.12345]).to_json().values()) == [1, 0.123, 0.123, 0.123, 0.0]


def test_two_decimals_from_one_on_and_three_below() -> None:
    assert [round_figure(x) for x in (1.006, -1.006, 0.0126, -0.9996)] == [1.01, -1.01, 0.013, -1.0]


def test_squares_beyond_a_float_are_not_obstacle() -> None:
    assert observed([1e300, -1e300]).deviation() == pytest.approx(2**0.5 * 1e300)
    assert observed([sys.float_info.max, -sys.float_info.max]).deviation() == sys.float_info.max

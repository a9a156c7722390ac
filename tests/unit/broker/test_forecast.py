"""How many ready sandboxes are kept: as many as are used up while one is made, and none without a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym.broker.forecast import Forecast


def asked(*at: float, remembered: int = 32) -> Forecast:
    forecast = Forecast(remembered)
    for moment in at:
        forecast.add(moment)
    return forecast


def wanted(forecast: Forecast, now: float, making: float = 0.5) -> int:
    return forecast.wanted(now, making=making, window=60.0, idle=10.0)


def test_one_request_alone_keeps_none() -> None:
    assert wanted(asked(), 0.0) == 0
    assert wanted(asked(0.0), 0.0) == 0
    assert wanted(asked(0.0, 1.0), 1.0) > 0


@pytest.mark.parametrize(("making", "kept"), [(0.1, 2), (0.75, 3), (1.25, 4)])
def test_at_one_a_second_there_are_as_many_as_go_while_one_is_made_and_a_spare_one(making: float, kept: int) -> None:
    forecast = asked(*map(float, range(10)))
    assert wanted(forecast, 9.0, making) == kept


def test_a_burst_is_met_by_as_many() -> None:
    assert wanted(asked(*[3.0] * 8), 3.0) == 9


def test_they_go_some_seconds_after_the_last_request() -> None:
    forecast = asked(0.0, 0.1, 0.2)
    assert wanted(forecast, 10.2) > 0
    assert wanted(forecast, 10.3) == 0


def test_slow_requests_that_keep_coming_keep_one_through_their_pauses() -> None:
    forecast = asked(0.0, 20.0, 40.0)
    assert wanted(forecast, 59.0) == 2
    assert wanted(forecast, 80.1) == 0


def test_what_is_older_than_the_window_is_forgotten() -> None:
    forecast = asked(*[0.0] * 8, 59.0)
    assert wanted(forecast, 59.5) == 9
    assert wanted(forecast, 60.0) == 0  # the burst is out of it, and one request alone keeps none


@given(st.lists(st.floats(0, 100)), st.floats(0, 200), st.floats(0.01, 10))
def test_it_is_bounded_by_what_was_asked_for(moments: list[float], later: float, making: float) -> None:
    forecast = asked(*sorted(moments), remembered=16)
    assert 0 <= wanted(forecast, max(moments, default=0.0) + later, making) <= min(len(moments), 16) + 1

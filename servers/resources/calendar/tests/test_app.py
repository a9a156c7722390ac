"""calendar on a real socket, and as pure functions: times, and what a calendar has to keep to."""

from __future__ import annotations

from typing import Any

import pytest
from schedule import BadTime, find_events, find_fault, minutes, read_wanted

from gym.server import ServerApp
from gym.server.fuzz import fuzz_verify
from gym.server.testing import Rows


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, fields: dict[str, Any]) -> None:
    fuzz_verify(
        app.configured(fields),
        rows,
        texts=[
            '[{"event_id": 0, "start_time": "11am", "duration": 60}]',
            '[{"event_id": null, "start_time": 3, "duration": "x"}]',
            "[{}]",
            "[{",
        ],
    )


@pytest.mark.parametrize(
    ("time", "after_midnight"),
    [("10am", 600), ("12am", 0), ("12pm", 720), ("12:30am", 30), ("1:15pm", 795), (" 9 am", 540), ("14:05", 845)],
)
def test_times_of_both_clocks_are_read(time: str, after_midnight: int) -> None:
    assert minutes(time) == after_midnight


@pytest.mark.parametrize("time", ["", "noon", "10", "10AM", "1:2:3", "am", ":", None, 600, "x:y"])
def test_an_invalid_time_is_refused(time: Any) -> None:
    with pytest.raises(BadTime, match="not a time of day"):
        minutes(time)


@pytest.mark.parametrize(
    ("constraint", "starts", "kept"),
    [
        (None, "3pm", True),
        (None, "3:30pm", False),
        ("before 12pm", "11am", True),
        ("before 12pm", "11:30am", False),
        ("after 1pm", "1pm", True),
        ("after 1pm", "12:59pm", False),
        ("between 11am and 1pm", "12pm", True),
        ("between 11am and 1pm", "12:01pm", False),
        ("at 2pm", "2pm", True),
        ("at 2pm", "2:01pm", False),
        ("some day", "10am", True),
    ],
)
def test_an_event_keeps_to_its_constraint(constraint: str | None, starts: str, kept: bool) -> None:
    wanted = {"0": read_wanted(60, "10am", "4pm", constraint)}
    events = [{"event_id": 0, "start_time": starts, "duration": 60}]
    assert find_fault(events, wanted, strict=False) == ("" if kept else "constraint_violated")


def test_the_first_list_of_objects_is_the_calendar() -> None:
    assert find_events('[1] [x] [{"a": [1]}] [{"b": 2}]') == [{"a": [1]}]
    assert find_events('[{broken] [\n {"b": 2}]') == [{"b": 2}]
    assert find_events("none") is None


@pytest.mark.parametrize("piece", ["[{", '[{"a":', '[{"a": "', "[ ", "[{}, {"])
def test_lists_that_never_end_are_not_tried_for_ever(piece: str) -> None:
    assert find_events(piece * 1_000_000) is None


def test_events_that_touch_do_not_overlap() -> None:
    events = [{"event_id": n, "start_time": time, "duration": 30} for n, time in enumerate(("10am", "10:30am"))]
    wanted = {str(n): read_wanted(30, "10am", "4pm", None) for n in (0, 1)}
    assert find_fault(events, wanted, strict=False) == ""
    later = [events[0], {**events[1], "start_time": "10:29am"}]
    assert find_fault(later, wanted, strict=False) == "conflicting_events"

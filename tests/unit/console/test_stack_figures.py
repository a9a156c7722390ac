"""Figures of the Stack page from sums that only grow, whichever server reports them, and whatever else it reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gym.console.pages.shell import NotThere
from gym.console.probes import Probe
from gym.console.stack import own_figures
from gym.console.stack.log_tails import TAIL_BYTES, LogTails
from gym.console.stack.router_metrics import read_sums, spread_buckets
from gym.console.stack.sliding_window import SlidingWindow, quantile
from gym.console.stack.stack_view import StackParts, StackView, rest_from_outside
from gym.server.call_counts import EDGES, CallCounts

METRICS = """
# TYPE traefik_service_requests_total counter
traefik_service_requests_total{code="200",method="POST",service="math-agent@file"} 90
traefik_service_requests_total{code="503",method="POST",service="replica-math-agent-1.one@file"} 10
traefik_service_requests_total{code="200",method="GET",service="gym-console@file"} 7
traefik_service_request_duration_seconds_bucket{code="200",service="math-agent@file",le="0.1"} 50
traefik_service_request_duration_seconds_bucket{code="200",service="math-agent@file",le="1"} 90
traefik_service_request_duration_seconds_bucket{code="200",service="math-agent@file",le="+Inf"} 100
traefik_service_requests_total{code="200",service="math-agent@file"} not-a-number
go_goroutines 12
"""


def probe(**work: Any) -> Probe:
    return Probe("success", health={"work": work})


def work(*seconds: float, failed: int = 0, in_flight: int = 2, **asked: int) -> dict[str, Any]:
    counts = CallCounts(began=len(seconds) + failed + in_flight)
    for one in seconds:
        counts.add(one, 200)
    for _ in range(failed):
        counts.add(0.01, 500)
    reported = counts.view(in_flight, asked)
    return {**reported, "edges": list(reported["edges"]), "buckets": list(reported["buckets"])}


def test_a_rate_is_the_growth_between_the_oldest_look_of_the_window_and_the_last() -> None:
    window = SlidingWindow(60)
    for now, value in ((0, 10), (31, 130), (61, 330), (91, 730)):
        window.add(now, {"calls": value})
    growth = window.growth()
    assert (growth.seconds, growth.sums, growth.rate("calls")) == (60, {"calls": 600}, 10.0)


def test_one_look_says_nothing_and_a_long_silence_starts_over() -> None:
    window = SlidingWindow(60)
    window.add(0, {"calls": 10})
    assert window.growth().rate("calls") is None
    window.add(500, {"calls": 9000})
    assert window.growth().rate("calls") is None


def test_a_sum_that_became_smaller_started_over_with_its_process() -> None:
    window = SlidingWindow(60)
    window.add(0, {"calls": 1000})
    window.add(10, {"calls": 5, "other": 3})
    assert window.growth().sums == {"calls": 5, "other": 3}


def test_a_percentile_lies_within_its_bucket() -> None:
    assert quantile([0.1, 1.0], [50, 50, 0], 0.5) == pytest.approx(0.1)
    assert quantile([0.1, 1.0], [50, 50, 0], 0.95) == pytest.approx(0.91)
    assert quantile([0.1, 1.0], [0, 0, 9], 0.5) == 1.0
    assert quantile([0.1], [0, 0], 0.5) is None


def test_the_routers_figures_are_summed_by_instance_whichever_way_it_was_reached() -> None:
    sums = read_sums(METRICS, {"math-agent": "math agent", "math-agent-1": "math agent"})
    assert (sums["math agent|calls"], sums["math agent|failed"]) == (100, 10)
    assert spread_buckets(sums, "math agent") == ([0.1, 1.0], [50, 40, 10])


def test_servers_tell_how_long_calls_took_and_whom_they_asked() -> None:
    window = SlidingWindow()
    for now, reported in ((0.0, work()), (10.0, work(*[0.015] * 19, 4.0, failed=3, tools=40))):
        window.add(now, own_figures.sums_of({"a-1": probe(**reported)}))
    growth = window.growth()
    found = own_figures.figures(growth, ["a-1"], [reported])
    assert found is not None
    assert (found["rate"], found["calls"], found["failed"], found["in_flight"]) == (2.3, 23, 3, 2)
    assert 0.01 < found["p50"] < 0.02
    assert found["p95"] > 2.0 or found["p95"] < 0.02  # the 22nd of 23 calls
    assert own_figures.calls_between(growth, {"agent": ["a-1"]}) == {("agent", "tools"): 40}


def test_calls_that_began_before_the_window_are_none_from_outside() -> None:
    """A server counts a call when it ends, its caller when it begins."""
    window = SlidingWindow()
    for now, reported in ((0.0, work(in_flight=8)), (50.0, work(*[30.0] * 8, in_flight=2))):
        window.add(now, own_figures.sums_of({"a-1": probe(**reported)}))
    assert own_figures.calls_begun(window.growth(), ["a-1"]) == 2
    old = SlidingWindow()  # of an SDK that does not count it
    for now, reported in ((0.0, work()), (50.0, work(0.1, 0.1))):
        reported.pop("began")
        old.add(now, own_figures.sums_of({"a-1": probe(**reported)}))
    assert own_figures.calls_begun(old.growth(), ["a-1"]) == 2


@pytest.mark.parametrize(
    ("begun", "asked", "routed", "rest"),
    [
        (50, 0, 0, 50),  # collectors ask agents past the router
        (1000, 1000, 0, 0),
        (1002, 1000, 0, 0),  # two servers were asked some milliseconds apart
        (1002, 1000, 1, 1),  # but this one came through the router
        (990, 1000, 3, 2),
        (1100, 1000, 0, 100),
        (14, 10, 0, 4),
    ],
)
def test_what_no_server_sent_came_from_outside(begun: float, asked: float, routed: float, rest: float) -> None:
    assert rest_from_outside(begun, asked, routed) == rest


@pytest.mark.parametrize(
    "reported",
    [
        *("text", 5, None, [], {"buckets": "x", "edges": {}}, {"buckets": [None, "a", float("nan")], "edges": [1]}),
        {"asked": ["x"], "memory": "much", "failed": None, "buckets": []},
    ],
)
def test_whatever_a_server_tells_there_are_figures_or_none(reported: Any) -> None:
    probes = {"a-1": Probe("success", health={"work": reported})}
    window = SlidingWindow()
    window.add(0, own_figures.sums_of(probes))
    window.add(5, own_figures.sums_of(probes))
    found = own_figures.figures(window.growth(), ["a-1"], [own_figures.read_work(probes["a-1"])])
    assert found is None or found.keys() >= {"in_flight", "of"}


def test_the_histogram_of_a_server_has_a_count_for_each_gap_between_its_edges() -> None:
    assert len(work()["buckets"]) == len(EDGES) + 1


def test_a_restart_that_is_not_reported_is_seen_with_what_was_wrong_before() -> None:
    view = StackView(StackParts(), None)
    for seen in (
        Probe("success", started=10.0),
        Probe("connection_error", "connection refused"),
        Probe("success", started=99.0),
    ):
        view._see_restarts({"a-1": seen})
    assert (view._seen["a-1"].restarts, view._seen["a-1"].why) == (1, "connection refused")


def test_the_last_lines_of_a_log_are_searched_without_regard_to_case_and_colours(tmp_path: Path) -> None:
    (tmp_path / "a-1.log").write_text("one\n\x1b[31mERROR\x1b[0m two\x07\nthree error\n\x1b]8;;javascript:x\x07l\n")
    logs = LogTails(tmp_path)
    assert logs.read("a-1", "error")["lines"] == ["ERROR two", "three error"]
    assert logs.read("a-1", lines=1)["lines"] == ["l"]


def test_of_a_long_log_the_end_is_read_from_a_whole_line_on(tmp_path: Path) -> None:
    lines = [f"line {number} {'x' * 100}" for number in range(10_000)]
    (tmp_path / "a-1.log").write_text("\n".join(lines))
    found = LogTails(tmp_path).read("a-1", lines=5000)
    assert found["lines"] == lines[-1000:]
    assert found["searched"] <= TAIL_BYTES < found["bytes"]


@pytest.mark.parametrize("name", ["../secret", "secret", "/etc/passwd", "", "..", "a-1.log", "link", "folder"])
def test_no_name_reaches_a_file_that_is_not_a_log(name: str, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (tmp_path / "secret.log").write_text("secret")
    (logs / "link.log").symlink_to(tmp_path / "secret.log")
    (logs / "folder.log").mkdir()
    (logs / "a-1.log").write_text("x")
    assert LogTails(logs).names() == ["a-1"]
    with pytest.raises(NotThere):
        LogTails(logs).read(name)

from __future__ import annotations

import pytest

from gym.runtime.lateness import Late, ends_at_each_start, not_in_time, start_seconds, unhealthy_before
from gym.runtime.status import ReplicaState


@pytest.mark.parametrize(("servers", "cores", "seconds"), [(3, 8, 120), (25, 2, 125), (200, 2, 1000), (5, 0, 120)])
def test_the_more_start_on_a_core_the_longer_they_may_take(servers: int, cores: int, seconds: float) -> None:
    assert start_seconds(servers, cores) == seconds


def test_who_is_late_is_reported_with_how_long_its_last_line_and_the_option() -> None:
    late = [
        Late("slow-1", "starting", 119.6, "no answer on /healthz", "one\nloading rows 3/10\n"),
        Late("failing-1", "unhealthy", 80.0, "status 503 on /healthz"),
    ]
    error = not_in_time(late, total=26, timeout=120, stack="demo")
    assert str(error) == (
        "slow-1: not healthy after 120 s (no answer on /healthz); its last line:\n"
        "loading rows 3/10\n"
        "failing-1: unhealthy for 80 s (status 503 on /healthz): (it wrote nothing)\n"
        "The other 24 stay up. They go on starting and are routed once healthy: gym ps --stack demo\n"
        "To wait longer: --timeout 240. All of its log: gym logs slow-1 --stack demo."
        " To stop everything: gym down --stack demo"
    )


def test_who_ends_at_each_start_is_reported_with_its_last_lines_and_what_becomes_of_the_rest() -> None:
    late = Late("broken-1", "restarting", 1.0, "exit code 3", "Traceback\nKeyError: 'x'", 3)
    error = ends_at_each_start([Late("slow-1", "starting", 1.0), late], healthy=4, stack="gym")
    assert str(error) == (
        "broken-1: ended 3 times while it started (exit code 3); its last lines:\n"
        "Traceback\nKeyError: 'x'\n"
        "The other 4 stay up. 1 still starts."
        " Fix it, then type the same command again: only what differs is replaced.\n"
        "All of its log: gym logs broken-1. To stop everything: gym down"
    )


def test_all_that_end_at_each_start_are_named_each_with_its_last_lines() -> None:
    late = [
        Late("mute-1", "starting", 0.1, early_exits=1),
        Late("broken-1", "restarting", 1.0, "exit code 3", "Traceback\nKeyError: 'x'", 3),
        Late("worse-1", "restarting", 1.0, "exit code 4", "Traceback\nin <module>\nNameError: y", 2),
    ]
    error = ends_at_each_start(late, healthy=4, stack="demo")
    assert str(error) == (
        "broken-1: ended 3 times while it started (exit code 3); its last lines:\n"
        "Traceback\nKeyError: 'x'\n"
        "worse-1: ended 2 times, too (exit code 4); its last lines:\n"
        "in <module>\nNameError: y\n"
        "mute-1: ended once, too (it starts); its last lines:\n(it wrote nothing)\n"
        "The other 4 stay up. Fix them, then type the same command again: only what differs is replaced.\n"
        "All of their logs: gym logs broken-1 worse-1 mute-1 --stack demo. To stop everything: gym down --stack demo"
    )


def test_a_change_does_not_wait_for_what_was_unhealthy_before_unless_it_asks_for_it() -> None:
    states: dict[str, ReplicaState] = {
        "fine-1": "healthy",
        "new-1": "starting",
        "tries-1": "starting",
        "failing-1": "unhealthy",
        "ends-1": "restarting",
        "ends-2": "restarting",
        "gone-1": "exited",
    }
    assert unhealthy_before(states, {"tries-1": 1}, {"ends-2"}) == {"tries-1", "failing-1", "ends-1", "gone-1"}

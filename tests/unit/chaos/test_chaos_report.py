from __future__ import annotations

from gym.chaos.chaos_report import ChaosReport, StruckFault, recovery_rows
from gym.chaos.process_usage import Usage, find_leaks
from gym.chaos.recovery_watch import Recovery

MB = 1 << 20


def struck(name: str, victim: str, whole: float | None) -> StruckFault:
    return StruckFault(name, victim, 1.0, 0.1, Recovery(None, 1.0, whole))


def test_a_stack_that_never_came_back_is_a_problem_and_others_are_not() -> None:
    report = ChaosReport("gym", "local", 1, faults=[struck("kill", "router", 1.0), struck("pause", "mcqa-1", None)])
    assert report.problems == ["never healthy again after pause of mcqa-1"]
    assert ChaosReport("gym", "local", 1, orphans=["process 7"]).problems == ["left behind: process 7"]


def test_rows_hold_the_median_and_the_worst() -> None:
    faults = [struck("kill", "router", seconds) for seconds in (1.0, 2.0, 9.0)]
    assert recovery_rows(faults) == [("kill", "router", "3", "-", "1.0 (max 1.0)", "2.0 (max 9.0)")]


def test_growth_beyond_what_a_load_explains_is_a_leak() -> None:
    before = {"a": Usage(100 * MB, 50), "b": Usage(100 * MB, 50), "c": Usage(100 * MB, None), "gone": Usage(1, 1)}
    after = {"a": Usage(160 * MB, 60), "b": Usage(170 * MB, 300), "c": Usage(100 * MB, 9000)}
    assert find_leaks(before, after, at_once=8) == [
        "b: 100 MB before, 170 MB after",
        "b: 50 descriptors before, 300 after",
    ]

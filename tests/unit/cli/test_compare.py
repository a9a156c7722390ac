"""`gym compare` says first what the figures mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.cli.commands.compare import verdict
from gym.collect.study.comparison import RolloutComparison
from gym.collect.study.estimates import Interval


@pytest.mark.parametrize(
    ("difference", "p_value", "words"),
    [
        (0.25, 0.01, "B is better by 0.2500; chance does not explain it."),
        (-0.25, 0.01, "B is worse by 0.2500; chance does not explain it."),
        (0.25, 0.2, "No clear difference: B is better by 0.2500, which may be chance."),
        (-0.25, 0.05, "No clear difference: B is worse by 0.2500, which may be chance."),
        (0.0, 1.0, "B is as good as A."),
    ],
)
def test_a_difference_is_called_one_where_chance_does_not_explain_it(
    difference: float, p_value: float, words: str
) -> None:
    interval = Interval(difference - 0.1, difference + 0.1)
    compared = RolloutComparison(Path("a"), Path("b"), difference=difference, p_value=p_value, interval=interval)
    assert verdict(compared) == words


def test_one_task_decides_nothing() -> None:
    compared = RolloutComparison(Path("a"), Path("b"), tasks=1, difference=1.0)
    assert verdict(compared) == "One task alone says nothing: B - A = +1.0000."

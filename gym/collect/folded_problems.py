"""What is wrong with many rows, told shortly: the same finding once, with the lines that share it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gym.errors import Problem

_MOST_LINES = 10


def fold_problems(problems: Iterable[Problem], most: int) -> list[Problem]:
    """One for each finding in a file, `most` of them at most; the last says what is left out."""
    alike: dict[Problem, list[int]] = {}
    for problem in problems:
        alike.setdefault(replace(problem, line=0), []).append(problem.line)
    folded = [_fold(problem, lines) for problem, lines in alike.items()]
    more = len(folded) - most
    return [*folded[:most], Problem(f"... and {more} more")] if more > 0 else folded


def _fold(problem: Problem, lines: list[int]) -> Problem:
    first, *others = lines
    named = ", ".join(map(str, others[:_MOST_LINES]))
    left = f" and {len(others) - _MOST_LINES} more" if len(others) > _MOST_LINES else ""
    also = f"; so in line{'s' * (len(others) > 1)} {named}{left}" if others else ""
    return replace(problem, line=first, what=problem.what + also)

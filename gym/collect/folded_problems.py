"""Problems of many rows in few lines: each finding once, with the lines that share it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gym.errors import Problem

_MAX_LINES = 10


def fold_problems(problems: Iterable[Problem], limit: int) -> list[Problem]:
    """One for each finding in a file, at most `limit`; the last says how many are left out."""
    alike: dict[Problem, list[int]] = {}
    for problem in problems:
        alike.setdefault(replace(problem, line=0), []).append(problem.line)
    folded = [_fold(problem, lines) for problem, lines in alike.items()]
    more = len(folded) - limit
    return [*folded[:limit], Problem(f"... and {more} more")] if more > 0 else folded


def _fold(problem: Problem, lines: list[int]) -> Problem:
    first, *others = lines
    named = ", ".join(map(str, others[:_MAX_LINES]))
    left = f" and {len(others) - _MAX_LINES} more" if len(others) > _MAX_LINES else ""
    also = f"; so in line{'s' * (len(others) > 1)} {named}{left}" if others else ""
    return replace(problem, line=first, what=problem.what + also)

"""A finding that many rows share is listed once; no other is lost."""

from __future__ import annotations

from gym.collect.folded_problems import fold_problems
from gym.errors import Problem


def folded(*problems: Problem, limit: int = 20) -> list[str]:
    return [str(problem) for problem in fold_problems(problems, limit)]


def test_rows_with_the_same_fault_are_one_finding_that_names_their_lines() -> None:
    rows = [Problem("names no agent", file="x.jsonl", line=line, key="agent_ref", hint="add it") for line in (1, 2, 7)]
    assert folded(*rows) == ["x.jsonl:1: agent_ref: names no agent; so in lines 2, 7\n    add it"]
    assert folded(*rows[:2]) == ["x.jsonl:1: agent_ref: names no agent; so in line 2\n    add it"]
    assert folded(rows[0]) == ["x.jsonl:1: agent_ref: names no agent\n    add it"]


def test_of_a_thousand_lines_ten_are_named_and_the_others_counted() -> None:
    (one,) = folded(*(Problem("bad", file="x.jsonl", line=line) for line in range(1, 1001)))
    assert one == f"x.jsonl:1: bad; so in lines {', '.join(map(str, range(2, 12)))} and 989 more"


def test_other_faults_and_other_files_stay_apart_up_to_a_bound() -> None:
    one, other = Problem("bad", file="x.jsonl", line=1), Problem("bad", file="y.jsonl", line=1)
    worse = Problem("worse", file="x.jsonl", line=2)
    assert folded(one, other, worse) == ["x.jsonl:1: bad", "y.jsonl:1: bad", "x.jsonl:2: worse"]
    assert folded(one, other, worse, limit=1) == ["x.jsonl:1: bad", "... and 2 more"]

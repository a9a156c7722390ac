"""Findings of one meaning are one finding: on which lines, how many, and what stands there."""

from __future__ import annotations

from gym.data.findings import MAX_MEANINGS, MAX_VALUES, Fold, pack, unpack
from gym.errors import Problem


def problem(line: int, what: str = "is missing", key: str = "answer", value: str = "") -> Problem:
    return Problem(what, file="rows.jsonl", line=line, key=key, hint="add it", value=value)


def folded(*problems: Problem) -> list[str]:
    fold = Fold()
    for one in problems:
        fold.add(one)
    return [str(one) for one in fold]


def test_a_run_of_lines_is_one_range_with_the_first_ones_sample() -> None:
    lines = folded(*(problem(line, value=f'{{"id":{line}}}' + "x" * 40) for line in range(10, 841)))
    assert lines == [
        'rows.jsonl:10-840: answer: is missing (831 lines); e.g. line 10: {"id":10}' + "x" * 40 + "\n    add it"
    ]


def test_gaps_are_reported() -> None:
    assert folded(*(problem(line) for line in (1, 2, 3, 7, 9))) == [
        "rows.jsonl:1-9: answer: is missing (5 lines: 1-3, 7, 9)\n    add it"
    ]


def test_one_line_alone_is_reported_with_what_stands_there() -> None:
    assert folded(problem(4, "is a number, not a string", value="3")) == [
        "rows.jsonl:4: answer: is a number, not a string: 3\n    add it"
    ]


def test_places_in_a_list_have_one_meaning_and_a_line_counts_once() -> None:
    lines = folded(*(problem(line, key=f"tools[{place}].name") for line in (1, 2) for place in (0, 1, 2)))
    assert lines == ["rows.jsonl:1-2: tools[*].name: is missing (2 lines)\n    add it"]


def test_other_values_are_reported_so_that_ids_can_be_looked_up() -> None:
    (text,) = folded(*(problem(line, "is not an id", value=f'"{line}"') for line in range(1, 4)))
    assert text.startswith('rows.jsonl:1-3: answer: is not an id (3 lines); e.g. line 1: "1"; also "2", "3"\n')


def test_what_is_remembered_is_bounded() -> None:
    fold = Fold()
    for line in range(1, MAX_MEANINGS + 11):
        fold.add(problem(line, f"kind {line}"))
    assert (len(fold), fold.left_out) == (MAX_MEANINGS, 10)
    fold = Fold()
    for line in range(1, 10_000, 2):
        fold.add(problem(line, value=str(line)))
    (one,) = fold
    assert (one.lines, one.last, len(one.values), one.more_values) == (5000, 9999, MAX_VALUES, True)
    assert len(one.ranges) <= 20


def test_findings_of_several_blocks_are_those_of_the_whole() -> None:
    problems = [problem(line, value=str(line % 3)) for line in (1, 2, 3, 4, 8, 9, 10, 20)]
    whole, joined = Fold(), Fold()
    for one in problems:
        whole.add(one)
    for start in range(0, len(problems), 3):
        part = Fold()
        for one in problems[start : start + 3]:
            part.add(one)
        joined.merge(unpack(pack(part)))
    assert [one.as_json() for one in joined] == [one.as_json() for one in whole]


def test_findings_of_two_files_stay_apart() -> None:
    fold = Fold()
    fold.add(problem(1))
    fold.add(Problem("is missing", file="other.jsonl", line=2, key="answer", hint="add it"))
    assert len(fold) == 2

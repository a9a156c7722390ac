"""Rows of reasoning_gym made by program: answers hold by the package and by solvers, doubtful tasks are left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from doubtful import DOUBTFUL
from generate import LEFT_OUT, LEVELS, SOLVERS, TASKS, ReasoningGymGenerator, is_right, level_config, make_entry, run
from puzzle_solvers import follows
from reasoning_gym.factory import DATASETS

from gym.server import ServerApp
from gym.server.generating import generate
from gym.server.testing import Rows
from gym.server.testing.made_rows import check_paid

HERE = Path(__file__).parents[1]

# Quick ones, of every kind.
SOME = ("gcd", "caesar_cipher", "binary_matrix", "self_reference", "maze", "knights_knaves", "number_sorting", "ab")


def test_every_task_of_the_package_is_either_made_or_left_out_for_a_reason() -> None:
    assert set(DATASETS) >= LEFT_OUT
    assert set(TASKS) == set(DATASETS) - LEFT_OUT - {"composite"}
    readme = (HERE / "README.md").read_text()
    assert not [task for task in LEFT_OUT if f"`{task}`" not in readme]


def test_the_example_rows_hold_by_solvers(rows: Rows) -> None:
    assert not [row["question"] for row in rows if not is_right(row) or row["metadata"]["source_dataset"] in DOUBTFUL]
    assert all(row["metadata"]["source_dataset"] in SOLVERS for row in rows)


@pytest.mark.parametrize(
    ("premises", "conclusion", "answers"),
    [
        (["All ants are dolphins", "Some dolphins are not spiders"], "Some ants are not spiders", {False}),
        (["All ants are dolphins", "All dolphins are spiders"], "All ants are spiders", {True}),
        (["All ants are dolphins", "No dolphins are spiders"], "No ants are spiders", {True}),
        (["All ants are dolphins", "All dolphins are spiders"], "Some ants are spiders", {False, True}),
        (["Some ants are dolphins", "All dolphins are spiders"], "Some ants are spiders", {True}),
    ],
)
def test_a_syllogism_is_judged_by_all_worlds(premises: list[str], conclusion: str, answers: set[bool]) -> None:
    assert follows(premises, conclusion) == answers


@pytest.mark.parametrize("task", sorted(SOLVERS.keys() - {"countdown", "puzzle24"} - DOUBTFUL.keys()))
def test_a_solver_agrees_with_the_package_and_not_with_another_answer(task: str) -> None:
    """Both ways: a solver that said yes to everything would prove nothing."""
    for level in (0, 1):
        entries = [make_entry(task, level_config(task, level), seed) for seed in range(6)]
        assert all(SOLVERS[task](one["question"], one["answer"]) for one in entries)
        others = {one["answer"] for one in entries}
        assert len(others) == 1 or any(_contradicts(task, one, other) for one in entries for other in others)


def _contradicts(task: str, entry: dict[str, Any], answer: str) -> bool:
    try:
        return answer != entry["answer"] and not SOLVERS[task](entry["question"], answer)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return True  # an answer to another question: of another form


def test_a_wrong_answer_of_the_package_makes_no_row() -> None:
    question = (
        "Consider these statements:\n1. All ants are dolphins\n2. Some dolphins are not spiders\n\n"
        "Does it logically follow that:\nSome ants are not spiders?\n(Answer Yes or No)"
    )
    entry = {"question": question, "answer": "Yes", "metadata": {"source_dataset": "syllogism"}}
    assert not is_right(entry)
    assert is_right(entry | {"answer": "No"})


def test_a_doubtful_task_is_made_on_demand_alone(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["--task", "syllogism", "--count", "3"]) == 1
    assert b"--doubtful makes them" in capfdbinary.readouterr().err
    assert run(["--task", "syllogism", "--count", "3", "--doubtful"]) == 0
    rows = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [row["metadata"]["source_dataset"] for row in rows] == ["syllogism"] * 3
    assert run(["--task", "juggling"]) == 1
    assert b"reasoning-gym has no task juggling" in capfdbinary.readouterr().err


def test_settings_reach_the_tasks_and_levels_make_them_harder() -> None:
    small = generate(ReasoningGymGenerator(("gcd",), {"min_numbers": 5, "max_numbers": 5}), 5, **_given("easy"))
    assert all(one.row["metadata"]["num_terms"] == 5 for one in small)
    lengths = [
        fmean(len(one.row["question"]) for one in generate(ReasoningGymGenerator(SOME), 40, **_given(difficulty)))
        for difficulty in LEVELS
    ]
    sys.stdout.write(f"characters of the questions {lengths}\n")
    assert lengths == sorted(lengths)


def test_no_level_asks_a_task_for_what_it_looks_for_in_vain() -> None:
    assert [level_config("arc_1d", level)["max_size"] for level in LEVELS.values()] == [10, 25, 40, 40]


def _given(difficulty: str) -> dict[str, Any]:
    return {"seed": 3, "split": "train", "difficulty": difficulty}


@pytest.mark.parametrize("strict", [False, True])
async def test_the_verifier_pays_every_solution_and_no_empty_answer(app: ServerApp, strict: bool) -> None:
    await check_paid(app, ReasoningGymGenerator(SOME), 10, strict=strict)


def test_the_same_seed_makes_the_same_rows_whatever_the_order_of_sets() -> None:
    made = [
        subprocess.run(
            [sys.executable, "-W", "ignore", HERE / "generate.py", "--count", "25", "--seed", "8"],
            capture_output=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert made[0] == made[1]
    assert len(set(made[0].splitlines())) == 25


def test_no_row_wants_an_answer_that_is_longer_than_what_is_looked_at() -> None:
    disks = {"min_pegs": 3, "max_pegs": 3}
    assert is_right(make_entry("tower_of_hanoi", disks | {"min_disks": 8, "max_disks": 8}, 1))
    assert not is_right(make_entry("tower_of_hanoi", disks | {"min_disks": 13, "max_disks": 13}, 1))


@pytest.mark.long
@pytest.mark.parametrize(("strict", "count"), [(False, 10_000), (True, 500)])
@pytest.mark.parametrize("difficulty", LEVELS)
async def test_ten_thousand_rows_of_each_difficulty_are_paid(
    app: ServerApp, difficulty: str, strict: bool, count: int
) -> None:
    generator = ReasoningGymGenerator()
    generator.difficulties = (difficulty,)
    await check_paid(app, generator, count, strict=strict)

"""Rows of stateful_counter made by program: a reader of the prompt alone gets the same count, and the verifier pays."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from generate import LEVELS, StatefulCounterGenerator

from gym.server.generating import Made, generate
from gym.server.serve import load_app
from gym.server.testing.made_rows import check_paid, check_repeatable

APP = Path(__file__).parents[1] / "app.py"
GENERATOR = StatefulCounterGenerator()


def made(count: int, difficulty: str, **options: Any) -> list[Made]:
    return list(generate(GENERATOR, count, **({"seed": 5, "split": "train", "difficulty": difficulty} | options)))


def solve(prompt: str) -> int:
    """The final count as read from the prompt, by other means than those that made it."""
    opening, *lines, _ = prompt.splitlines()
    (start,) = map(int, re.findall(r"\d+", opening))
    count, last = start, 0
    for line in lines:
        step = line.split(". ", 1)[1].lower()
        numbers = [int(one) for one in re.findall(r"\d+", step)]
        change, times = _change(step, numbers, start, count, last), 1
        if "times in all" in step:
            times = numbers[1]
        count, last = count + change * times, change or last
    return count


def _change(step: str, numbers: list[int], start: int, count: int, last: int) -> int:
    if "odd number" in step:
        return numbers[0] if count % 2 else 0
    if "more than" in step:
        return -numbers[1] if count > numbers[0] else numbers[2]
    if "what it shows" in step:
        return count
    if "back to where it started" in step:
        return start - count
    if "once more" in step:
        return last
    down = re.search(r"away|sent off|go home|lost|let .* out|take .* out|drive off", step)
    return -numbers[0] if down else numbers[0]


@pytest.mark.parametrize("difficulty", LEVELS)
def test_a_reader_of_the_prompt_alone_gets_the_same_count(difficulty: str) -> None:
    for one in made(300, difficulty):
        prompt = one.row["responses_create_params"]["input"][1]["content"]
        assert solve(prompt) == one.row["expected_count"] != one.row["initial_count"], prompt


def test_the_same_seed_makes_the_same_rows_and_splits_share_no_task() -> None:
    rows = check_repeatable(GENERATOR, "easy", 100)
    assert len({one.row["uuid"] for one in rows}) == 100


def test_a_harder_row_takes_more_calls() -> None:
    calls = [sum(len(one.steps) for one in made(200, difficulty)) / 200 for difficulty in LEVELS]
    sys.stdout.write(f"calls a row: {calls}\n")
    assert all(more > 1.8 * less for less, more in zip(calls, calls[1:], strict=False))


async def test_the_verifier_pays_every_solution_and_no_empty_answer() -> None:
    await check_paid(load_app(APP), GENERATOR, 20, steps=True, grows=True)


@pytest.mark.long
async def test_ten_thousand_rows_of_each_difficulty_are_paid() -> None:
    await check_paid(load_app(APP), GENERATOR, 10_000, steps=True)

"""Rows of multi_step made by program: a reader of the prompt alone hands in the same values, and the verifier pays."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from generate import LEVELS, MultiStepGenerator
from synonyms import SYNONYMS

from gym.server.generating import Made, generate
from gym.server.serve import load_app
from gym.server.testing.made_rows import check_paid, check_repeatable

APP = Path(__file__).parents[1] / "app.py"
GENERATOR = MultiStepGenerator()


def made(count: int, difficulty: str, **options: Any) -> list[Made]:
    return list(generate(GENERATOR, count, **({"seed": 5, "split": "train", "difficulty": difficulty} | options)))


def solve(prompt: str) -> list[str]:
    """The words in the order in which they are wanted, by other means than those that made it."""
    words = re.findall(r"\w+", re.findall(r": ([A-Z][\w, ]+)\.", prompt)[0])
    if "first, the third" in prompt:
        return [word for at, word in enumerate(words, 1) if at % 2]
    if "five letters" in prompt:
        return list(filter(re.compile(r"\w{6}").match, words))
    if "shortest" in prompt:
        return [word for length in range(30) for word in words if len(word) == length]
    if "last word to the first" in prompt:
        return list(reversed(words))
    if "Z to A" in prompt:
        return sorted(words, reverse=True)
    return sorted(words) if "alphabetical" in prompt else words


@pytest.mark.parametrize("difficulty", LEVELS)
def test_a_reader_of_the_prompt_alone_hands_in_the_same_values(difficulty: str) -> None:
    for one in made(300, difficulty):
        row = one.row
        prompt = row["responses_create_params"]["input"][1]["content"]
        words = solve(prompt)
        assert words == row["expected_synonyms"], prompt
        assert [sum(map(ord, word)) for word in words] == row["expected_synonym_values"]
        assert row["minefield_label_value"] not in row["expected_synonym_values"]


def test_no_word_is_its_own_synonym_nor_given_twice_for_one() -> None:
    assert all(label not in words and len(set(words)) == len(words) for label, words in SYNONYMS.items())


def test_the_same_seed_makes_the_same_rows_and_splits_share_no_task() -> None:
    check_repeatable(GENERATOR, "easy", 100)


def test_a_harder_row_takes_more_calls() -> None:
    calls = [sum(len(one.steps) for one in made(200, difficulty)) / 200 for difficulty in LEVELS]
    sys.stdout.write(f"calls a row: {calls}\n")
    assert all(more > 1.2 * less for less, more in zip(calls, calls[1:], strict=False))


async def test_the_verifier_pays_every_solution_and_no_empty_answer() -> None:
    await check_paid(load_app(APP), GENERATOR, 20, steps=True, grows=True)


@pytest.mark.long
async def test_ten_thousand_rows_of_each_difficulty_are_paid() -> None:
    await check_paid(load_app(APP), GENERATOR, 10_000)

"""Rows of xlam_fc made by program: the prompt says every value of every call, and the verifier pays in both modes."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from generate import LEVELS, NONE_FITS, XlamFcGenerator
from jsonschema import Draft202012Validator
from made_tools import TOOLS
from made_values import KINDS

from gym.server.generating import Made, generate
from gym.server.serve import load_app
from gym.server.testing.made_rows import check_paid, check_repeatable

APP = Path(__file__).parents[1] / "app.py"
GENERATOR = XlamFcGenerator()


def made(count: int, difficulty: str, **options: Any) -> list[Made]:
    return list(generate(GENERATOR, count, **({"seed": 5, "split": "train", "difficulty": difficulty} | options)))


def said_values() -> dict[str, str]:
    """How a prompt says what a call has, where that is not the value itself."""
    random = Random(3)
    pairs = (kind.make(random) for kind in KINDS.values() for _ in range(5_000))
    return {str(value): text for value, text in pairs}


@pytest.mark.parametrize("difficulty", LEVELS)
def test_a_call_has_what_the_prompt_says_and_fits_the_schema_that_is_offered(difficulty: str) -> None:
    said = said_values()
    for one in made(300, difficulty):
        prompt = one.row["responses_create_params"]["input"][1]["content"].lower()
        tools = {tool["name"]: tool["parameters"] for tool in one.row["responses_create_params"]["tools"]}
        for call in one.row["expected_answers"]:
            Draft202012Validator(tools[call["name"]]).validate(call["arguments"])
            assert set(tools[call["name"]]["required"]) <= set(call["arguments"])
            for value in map(str, call["arguments"].values()):
                assert said.get(value, value).lower() in prompt, (value, prompt)
        assert bool(one.row["expected_answers"]) == (one.answer != NONE_FITS)


def test_where_no_function_is_to_fit_none_of_the_same_domain_is_offered() -> None:
    none = [one for one in made(400, "hard") if not one.row["expected_answers"]]
    assert 15 <= len(none) <= 80
    domains = {tool.name: tool.domain for tool in TOOLS}
    for one in none:
        offered = {domains[tool["name"]] for tool in one.row["responses_create_params"]["tools"]}
        asked = {domain for name, domain in domains.items() if f'"{name}"' in one.key}
        assert offered
        assert not offered & asked


def test_the_same_seed_makes_the_same_rows_and_splits_share_no_task() -> None:
    check_repeatable(GENERATOR, "easy", 100)


def test_a_harder_row_wants_more_arguments() -> None:
    counts = [sum(len(step.arguments) for one in made(300, name) for step in one.steps) / 300 for name in LEVELS]
    sys.stdout.write(f"arguments a row: {counts}\n")
    assert all(more > 1.4 * less for less, more in zip(counts, counts[1:], strict=False))


@pytest.mark.parametrize("strict", [False, True])
async def test_the_verifier_pays_every_solution_and_no_empty_answer(strict: bool) -> None:
    await check_paid(load_app(APP), GENERATOR, 50, strict=strict, grows=True)


@pytest.mark.long
@pytest.mark.parametrize(("strict", "count"), [(False, 10_000), (True, 2_000)])
async def test_ten_thousand_rows_of_each_difficulty_are_paid(strict: bool, count: int) -> None:
    await check_paid(load_app(APP), GENERATOR, count, strict=strict)

"""Rows of ruler made by program: what is asked for stands in the text, and the verifier pays it."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from contexts import DEEDS, FACTS, LIVES
from generate import LEVELS, SUBSETS, RulerGenerator

from gym.server.generating import Made, generate
from gym.server.serve import load_app
from gym.server.testing.made_rows import check_paid, check_repeatable

APP = Path(__file__).parents[1] / "app.py"
GENERATOR = RulerGenerator()


def made(count: int, difficulty: str, **options: Any) -> list[Made]:
    return list(generate(GENERATOR, count, **({"seed": 5, "split": "train", "difficulty": difficulty} | options)))


def prompt(one: Made) -> str:
    text: str = one.row["responses_create_params"]["input"][0]["content"]
    return text


def solve(subset: str, text: str) -> set[str]:
    """The answer as read from the prompt alone, by other means than those that made it."""
    context, _, question = text.rpartition("\n\n")
    count = int((re.findall(r" (\d+) ", question) or ["0"])[0])
    if subset in ("cwe", "fwe"):
        return {word for word, _ in Counter(context.partition("\n\n")[2].split()).most_common(count)}
    if subset == "vt":
        return _solve_variables(context, re.findall(r"\d{5}", question)[0])
    if subset.startswith("qa"):
        return _solve_documents(context, question, two_steps=subset == "qa_2")
    pairs = re.findall(r"special \w+ of ([\w-]+) is (?:this: )?([\w-]+)\.", context)
    pairs += [(key, value) for value, key in re.findall(r"Note that ([\w-]+) is the special \w+ of ([\w-]+)", context)]
    asked = set(re.findall(r"[\w-]+", question))
    return {value for key, value in pairs if key in asked}


def _solve_variables(context: str, value: str) -> set[str]:
    found: dict[str, str] = {}
    for name, source in re.findall(r"VAR (\w{5}) = (?:VAR )?(\w+)\.", context):
        found[name] = found.get(source, source)
    return {name for name, held in found.items() if held == value}


def _solve_documents(context: str, question: str, *, two_steps: bool) -> set[str]:
    thing, city = re.findall(r"the ([a-z]+-[a-z]+) (?:of|in) (\w+)|In (\w+), .* the ([a-z-]+)", question)[0][:2]
    name = "([A-Z][a-z]+ [A-Z][a-z]+)"
    forms = [statement for statement, _ in FACTS] + [
        f"The {{thing}} of {{city}} was {did} by {{name}}." for did in DEEDS
    ]
    facts = [re.escape(one).replace(r"\{", "{").replace(r"\}", "}") for one in forms]
    people = {found for one in facts for found in re.findall(one.format(thing=thing, city=city, name=name), context)}
    if not two_steps:
        return people
    lives = [re.escape(one).replace(r"\{", "{").replace(r"\}", "}") for one, _ in LIVES]
    return {
        place
        for one in lives
        for person in people
        for place in re.findall(one.format(name=person, place="([A-Z][a-z]+)"), context)
    }


@pytest.mark.parametrize("difficulty", LEVELS)
def test_a_solver_that_reads_the_prompt_alone_finds_the_same_answers(difficulty: str) -> None:
    rows = made(40 if difficulty == "extreme" else 120, difficulty)
    assert {one.row["subset"] for one in rows} == set(SUBSETS)
    for one in rows:
        assert solve(one.row["subset"], prompt(one)) == set(one.row["outputs"]), one.row["subset"]


def test_no_question_names_its_answer_and_no_answer_holds_another() -> None:
    for one in made(300, "easy"):
        question = prompt(one).rpartition("\n\n")[2].lower()
        outputs = [text.lower() for text in one.row["outputs"]]
        assert not any(text in question for text in outputs)
        assert not any(text in other for text in outputs for other in outputs if text != other)


@pytest.mark.parametrize("strict", [False, True])
async def test_the_verifier_pays_every_solution_and_no_empty_answer(strict: bool) -> None:
    proofs = await check_paid(load_app(APP), GENERATOR, 20, strict=strict)
    lengths = [proof.mean_length for proof in proofs.values()]
    assert all(longer > 2 * shorter for shorter, longer in pairwise(lengths))


def test_the_same_seed_makes_the_same_rows_and_splits_share_no_task() -> None:
    rows = check_repeatable(GENERATOR, "easy")
    assert len({one.row["uuid"] for one in rows}) == 50


@pytest.mark.long
@pytest.mark.parametrize(("strict", "count"), [(False, 10_000), (True, 2_000)])
async def test_ten_thousand_rows_of_each_difficulty_are_paid(strict: bool, count: int) -> None:
    await check_paid(load_app(APP), GENERATOR, count, strict=strict)

"""Rows of math_advanced_calculations made by program: what is asked is what is worth 1, and nothing less is."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import pytest
from generate import LEVELS, NAMES, WORDINGS, MathAdvancedCalculationsGenerator, tools
from universe import FUNCTIONS

from gym.server import ServerApp
from gym.server.generating import Made, generate, prove
from gym.server.testing.made_rows import check_paid, check_repeatable

HERE = Path(__file__).parents[1]
GENERATOR = MathAdvancedCalculationsGenerator()
# The rules of this universe, written down a second time.
RULES: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b + 1.2,
    "subtract": lambda a, b: a - b - 3,
    "multiply": lambda a, b: 1.1 * a * b,
    "divide": lambda a, b: a / (2 * b),
    "sin": math.cos,
    "cos": math.sin,
    "power": lambda a, b: a**b * a * a,
    "log": lambda a, base: math.log(a) / math.log(base + 1.5),
    "pi": lambda: math.exp(1),
    "negate": lambda a: a,
    "return_constant": lambda a: a,
}


def made(count: int, difficulty: str, seed: int = 5) -> list[Made]:
    return list(generate(GENERATOR, count, seed=seed, split="train", difficulty=difficulty))


def question_of(one: Made) -> str:
    text: str = one.row["responses_create_params"]["input"][1]["content"]
    return text


def read_steps(question: str) -> float:
    """The value of a question in steps, from its words alone."""
    known: dict[str, float] = {}
    patterns = [
        (name, wording, re.compile(re.escape(wording).replace(r"\{0\}", r"(\S+?)").replace(r"\{1\}", r"(\S+?)"), re.I))
        for name, (orders, _) in WORDINGS.items()
        for wording in orders
    ]
    value = math.nan
    for said in re.split(r"(?<=[A-Za-z0-9])\.\s", question)[:-1]:
        order, _, name = re.split(r"(; call this |, which is |; the result is | to get )", said)
        for function, wording, pattern in patterns:
            if found := pattern.fullmatch(order):
                swapped = wording.find("{1}") < wording.find("{0}") and "{1}" in wording
                given = [known[one] if one in known else float(one) for one in found.groups()]
                value = known[name] = RULES[function](*(given[::-1] if swapped else given))
                break
        else:
            raise AssertionError(f"{order!r} was not understood")
    return value


@pytest.mark.parametrize("difficulty", LEVELS)
def test_who_reads_the_question_alone_and_computes_by_other_formulas_finds_the_same_value(difficulty: str) -> None:
    solved = 0
    for one in made(150, difficulty):
        question, wanted = question_of(one), json.loads(one.row["ground_truth"])[-1]
        if notation := re.search(r"\w+\([^ ].*\)", question):
            value = eval(notation.group(), {"__builtins__": {}}, dict(RULES))
        elif question.count(".") > 1 and re.search(r"; call|; the|, which is| to get", question):
            value = read_steps(question)
        else:
            continue  # nested in words
        solved += 1
        assert math.isclose(value, wanted, rel_tol=1e-6), question
    assert solved > 75


def test_every_number_of_the_question_is_used_and_every_other_argument_was_computed() -> None:
    for one in made(200, "hard"):
        stated = {float(found) for found in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)", question_of(one))}
        computed: set[float] = set()
        used: set[float] = set()
        for step in one.steps:
            values = set(step.arguments.values())
            assert values <= stated | computed
            used |= values
            computed.add(step.output["solution"])
        assert stated <= used


def test_the_tools_are_those_of_the_server_and_names_are_enough() -> None:
    example = json.loads((HERE / "data" / "example.jsonl").read_text("utf-8").splitlines()[0])
    assert tools() == example["responses_create_params"]["tools"]
    assert set(WORDINGS) == set(FUNCTIONS)
    assert all(len(set(names)) == 72 for names in NAMES)


def test_the_same_seed_makes_the_same_rows_with_the_fields_of_the_examples() -> None:
    rows = [one.row for one in check_repeatable(GENERATOR, "medium")]
    assert len({row["id"] for row in rows}) == 50
    example = json.loads((HERE / "data" / "example.jsonl").read_text("utf-8").splitlines()[0])
    assert {frozenset(row) for row in rows} == {frozenset(example)}


def test_a_harder_question_takes_more_calls_and_more_words() -> None:
    calls = {difficulty: fmean(len(one.steps) for one in made(100, difficulty)) for difficulty in LEVELS}
    words = {difficulty: fmean(len(question_of(one)) for one in made(100, difficulty)) for difficulty in LEVELS}
    for measured in (list(calls.values()), list(words.values())):
        assert all(more > 1.5 * less for less, more in zip(measured, measured[1:], strict=False)), (calls, words)


@pytest.mark.parametrize("strict", [False, True])
async def test_the_tools_lead_to_full_reward_and_no_answer_to_none(app: ServerApp, strict: bool) -> None:
    await check_paid(app, GENERATOR, 20, strict=strict, steps=not strict)


async def test_the_last_value_alone_is_not_enough(app: ServerApp) -> None:
    unworked = [Made(one.row, answer=one.answer, key=one.key) for one in made(20, "medium")]
    proof = await prove(app, unworked, steps=False)
    assert len(proof.unpaid) == 20


@pytest.mark.long
@pytest.mark.parametrize("strict", [False, True])
async def test_ten_thousand_rows_of_each_difficulty_are_paid(app: ServerApp, strict: bool) -> None:
    await check_paid(app, GENERATOR, 10_000, strict=strict)

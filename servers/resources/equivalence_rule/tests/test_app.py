"""equivalence_rule on a real socket, and as pure functions: three rules, and how far an answer may be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rules import exact, is_hopeless, likeness

from gym.server.cases import CASES, load_cases, missing_kinds, run_cases
from gym.server.fuzz import fuzz_verify
from gym.server.serve import load_app

HERE = Path(__file__).parents[1]
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (HERE / "data" / "example.jsonl").read_text("utf-8").splitlines()
]


async def test_every_case_ends_as_its_line_says() -> None:
    cases = load_cases(HERE / CASES)
    outcomes = await run_cases(load_app(HERE / "app.py"), "equivalence_rule", {}, cases)
    assert not [one for one in outcomes if not one.passed]
    assert not list(missing_kinds(cases))


@pytest.mark.parametrize(
    "fields",
    [{}, {"strict": True}, {"grading_rule": "seq_match"}, {"grading_rule": "weighted_seq_match", "strict": True}],
)
def test_no_well_formed_request_breaks_it(fields: dict[str, Any]) -> None:
    fuzz_verify(
        load_app(HERE / "app.py").configured(fields), ROWS, texts=["carbon dioxide", "Carbon  dioxide"], examples=80
    )


@pytest.mark.parametrize(("answer", "score"), [("the cat", 1.0), ("The  CAT\n", 1.0), ("the cat.", 0.0), ("cat", 0.0)])
def test_exact_lets_case_and_spacing_pass_and_nothing_else(answer: str, score: float) -> None:
    assert exact(answer, "the cat", strict=False) == score


@pytest.mark.parametrize("answer", ["the cat.", '"The cat"', "**the cat**", "ｔｈｅ ｃａｔ"])
def test_strict_forgives_what_stands_around_an_answer(answer: str) -> None:
    assert exact(answer, "the cat", strict=True) == 1.0


def test_the_weighted_rule_rewards_a_good_beginning() -> None:
    expected = "the quick brown fox jumps over the dog"
    begun, ended = "the quick brown cow sits", "a slow red cow jumps over the dog"
    gain = {
        text: likeness("weighted_seq_match", text, expected) - likeness("seq_match", text, expected)
        for text in (begun, ended)
    }
    assert gain[begun] > gain[ended]
    assert likeness("weighted_seq_match", expected.upper(), expected) == pytest.approx(1.0)


def test_an_answer_far_too_long_is_not_compared() -> None:
    assert is_hopeless("x" * 10_000, "y" * 100)
    assert not is_hopeless("x" * 9_000, "y" * 100)

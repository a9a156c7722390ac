"""equivalence_rule on a real socket, and as pure functions: three rules, and how far an answer may be."""

from __future__ import annotations

from typing import Any

import pytest
from rules import exact, is_hopeless, likeness

from gym.server import ServerApp
from gym.server.fuzz import fuzz_verify
from gym.server.testing import Rows


@pytest.mark.parametrize(
    "fields",
    [{}, {"strict": True}, {"grading_rule": "seq_match"}, {"grading_rule": "weighted_seq_match", "strict": True}],
)
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, fields: dict[str, Any]) -> None:
    fuzz_verify(app.configured(fields), rows, texts=["carbon dioxide", "Carbon  dioxide"], examples=80)


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

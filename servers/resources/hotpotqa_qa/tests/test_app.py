"""hotpotqa_qa on a real socket, and as pure functions: how an answer is read, and how a truth may be spelt."""

from __future__ import annotations

from typing import Any

import pytest
from scores import MAX_TRIES, read_answer, score
from spellings import spellings, why_unreliable

from gym.server import ServerApp
from gym.server.fuzz import fuzz_verify
from gym.server.testing import Caller, Rows, running


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, fields: dict[str, Any]) -> None:
    fuzz_verify(
        app.configured(fields),
        rows,
        texts=['{"answer": "1954"}', '{"answer": {"a": [1]}}', '{"answer": "\\\\ud800"}', "{{{", "The Danube"],
    )


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"answer": "a"} then {"answer": "b"}', "b"),
        ('```json\n{"answer": "a"}\n``` then {"answer": "b"}', "a"),
        ('{"answer": 4, "supporting_facts": [["T", 0]]}', "4"),
        ('{"reply": "a"}', '{"reply": "a"}'),
        ('{"answer": "a"', '{"answer": "a"'),
        (" plain ", "plain"),
        ("", ""),
    ],
)
def test_which_answer_is_read(text: str, answer: str) -> None:
    assert read_answer(text)[0] == answer


@pytest.mark.parametrize(
    ("truth", "spelling"),
    [
        ("The Danube", "danube"),
        ('"Heroes"', "heroes"),
        ("Mumbai (Bombay)", "bombay"),
        ("Mumbai (Bombay)", "mumbai"),
        ("seven", "7"),
        ("3rd", "third"),
        ("1,234,567", "1234567"),
        ("Yes.", "yes"),
        ("J. R. Ewing", "j r ewing"),
        ("twenty-one", "twenty one"),
        ("Laurel & Hardy", "laurel and hardy"),
        ("Laurel and Hardy", "laurel & hardy"),
        ("Saint\u2011Denis", "saint-denis"),
    ],
)
def test_a_truth_is_met_in_other_spellings(truth: str, spelling: str) -> None:
    assert spelling in spellings(truth)


def test_short_spellings_are_not_invented() -> None:
    assert spellings("a B") == ["a b"]


@pytest.mark.parametrize(
    ("truth", "why"),
    [
        ("x" * 41, "gt_too_long"),
        ("John Ronald Tolkien", "multi_word_name"),
        ("the city by the sea", ""),
        ("University of North Carolina System", "multi_word_name"),
        ("Paris", ""),
        ("three small words", ""),
    ],
)
def test_which_truths_say_little(truth: str, why: str) -> None:
    assert why_unreliable(truth) == why


def test_the_four_scores_differ_as_they_should() -> None:
    result = score("It was in the year 1954 that he did", "1954")
    assert (result.answer_em, result.is_correct, result.is_correct_strict) == (0.0, 1.0, 1.0)
    assert result.answer_f1 == pytest.approx(2 / 9)
    assert score("yes", "no").answer_f1 == 0.0
    assert score("the no", "No!").answer_em == 1.0


def test_of_many_texts_that_might_be_json_the_last_are_tried() -> None:
    assert read_answer('{"answer": "Paris"} {}') == ("Paris", True)
    text = '{"answer": "Paris"}' + "{}" * MAX_TRIES
    assert read_answer(text) == (text, False)


async def test_metrics_come_with_and_without_unreliable_truths(app: ServerApp) -> None:
    ones = {"answer_em": 1.0, "answer_f1": 1.0, "is_correct": 1.0, "is_correct_strict": 1.0, "extracted_answer": "a"}
    replies = [
        {"_ng_task_index": 0, "reward": 1.0, **ones, "gt_should_remove": False},
        {"_ng_task_index": 1, "reward": 0.0, **dict.fromkeys(ones, 0.0), "gt_should_remove": True},
    ]
    async with running(app) as url, Caller(url) as caller:
        metrics = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
    assert metrics["pass@1/answer_em"] == 50.0
    assert metrics["filtered_pass@1/is_correct_strict"] == 100.0

"""Worthless answers: every kind is there, and what might be right is left out."""

from __future__ import annotations

from typing import Any

from gym.cli.audit.worthless_answers import HOSTILE, OVERSIZED, PIECES, WorthlessAnswer, worthless_answers
from gym.wire import items


def answers_to(output: list[dict[str, Any]], **row: Any) -> list[WorthlessAnswer]:
    return list(
        worthless_answers({"responses_create_params": {"input": "How many?"}, "response": {"output": output}, **row})
    )


def texts(answers: list[WorthlessAnswer], check: str) -> set[str]:
    return {items.output_text(one.output) for one in answers if one.check == check}


def test_every_kind_of_answer_is_made() -> None:
    answers = answers_to([items.message("3")], expected_answer="3")
    checks = {one.check for one in answers}
    assert checks == {
        "empty",
        "random",
        "copied prompt",
        "label injection",
        "field names",
        "oversized",
        "hostile texts",
        "refusal",
        "odd items",
    }
    assert texts(answers, "copied prompt") == {"How many?"}
    assert texts(answers, "field names") == {"expected_answer: expected_answer"}
    assert len(texts(answers, "oversized").pop()) > OVERSIZED * 0.99
    assert len(texts(answers, "hostile texts")) == len(PIECES)
    assert all(len(text) > HOSTILE * 0.99 for text in texts(answers, "hostile texts"))


def test_a_guess_that_stands_in_the_row_may_be_right_and_is_not_tried() -> None:
    for truth in ("b", ["A", {"x": " B "}], {"options": [{"k": "B"}]}):
        guessed = texts(answers_to([items.message("?")], truth=truth), "label injection")
        assert not any(text.endswith(("WorthlessAnswer: B", r"\boxed{B}")) for text in guessed)
        assert "WorthlessAnswer: D" in guessed
    assert "WorthlessAnswer: 1" not in texts(answers_to([items.message("?")], truth=1.0), "label injection")
    assert "WorthlessAnswer: 1" not in texts(answers_to([items.message("?")], truth=True), "label injection")


def test_an_answer_that_is_the_right_one_is_left_out() -> None:
    silent = answers_to([])
    assert {"", " \n "}.isdisjoint(texts(silent, "empty"))
    assert "" in texts(answers_to([items.function_call("go", "{}")]), "empty")


def test_right_calls_come_back_with_broken_arguments() -> None:
    broken = [
        one.output[0]["arguments"]
        for one in answers_to([items.function_call("go", '{"a": 1}')])
        if one.check == "odd items" and one.output[0].get("name") == "go"
    ]
    assert {"{", "[]", "null", ""} < set(broken)


def test_the_same_row_gets_the_same_answers_every_time() -> None:
    assert texts(answers_to([items.message("3")]), "random") == texts(answers_to([items.message("3")]), "random")

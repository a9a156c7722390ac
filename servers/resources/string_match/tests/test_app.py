"""string_match on a real socket, and as pure functions: how an answer is found and when two of them are the same."""

from __future__ import annotations

from typing import Any

import pytest
from extraction import ExtractionMode, extract_answer
from hypothesis import strategies as st
from matching import score, without_latex

from gym.server import ServerApp
from gym.server.fuzz import fuzz_verify
from gym.server.testing import Rows


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, fields: dict[str, Any]) -> None:
    fuzz_verify(
        app.configured(fields),
        rows,
        texts=[
            "Final answer: 360",
            "Answer: 3,6",
            "\\boxed{\\text{wy}}",
            "red and blue",
            "1e999",
            "nan",
            "Answer: 5 km²",
        ],
        values={"extraction_mode": st.sampled_from(["boxed", "final_answer", "last_line", "full_response"])},
    )


@pytest.mark.parametrize(
    ("text", "mode", "answer"),
    [
        ("Answer: 1\nFinal answer： 2.", "final_answer", "2"),
        (r"no colon \boxed{\text{ x }}", "final_answer", "x"),
        (r"Answer: a \boxed{b}", "boxed", "b"),
        (r"\boxed{\boxed{c}}", "boxed", "c"),
        (r"\boxed{never closed", "boxed", None),
        ("one\n two \n\n", "last_line", "two"),
        ("  all of it\n", "full_response", "all of it"),
        ("  ", "full_response", None),
        ("", "last_line", None),
    ],
)
def test_where_an_answer_stands(text: str, mode: ExtractionMode, answer: str | None) -> None:
    assert extract_answer(text, mode) == answer


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Paris.", "paris"),
        ("'Paris'", "Paris!"),
        ("$42$", "42.0"),
        (r"42\%", "42%"),
        ("1,234", "1234"),
        (r"\(\mathbf{x} + \text{y}\)", "x + y"),
        ("new york", "NY"),
        ("Kansas, Arkansas", "KS, AR"),
        ("a; b", "a, b"),
        ("５０", "50"),
        (r"90^\circ c", "90° c"),
    ],
)
def test_the_same_answer_however_it_is_written(answer: str, expected: str) -> None:
    assert compare(answer, expected) == 1.0
    assert compare(expected, answer) == 1.0


@pytest.mark.parametrize(
    ("answer", "expected", "score"),
    [
        ("100.5", "100", 0.98),
        ("5 kg", "5", 0.98),
        ("98", "100", 0.0),
        ("0.1", "0", 0.0),
        ("inf", "1", 0.0),
        ("x", "", 0.0),
    ],
)
def test_a_number_may_be_near(answer: str, expected: str, score: float) -> None:
    assert compare(answer, expected) == score


@pytest.mark.parametrize(
    ("answer", "expected"), [("ark", "mark"), ("sed", "sanded"), ("100.5", "100"), ("Oregonian", "ORian")]
)
def test_strict_lets_no_other_word_and_no_near_number_pass(answer: str, expected: str) -> None:
    assert compare(answer, expected, strict=True) == 0.0


@pytest.mark.parametrize(
    ("answer", "expected"), [("5 kg", "5"), ("90°", r"90^\circ"), ("red and blue", "red, blue"), ("NY", "New York")]
)
def test_strict_still_reads_units_lists_and_states(answer: str, expected: str) -> None:
    assert compare(answer, expected, strict=True) == 1.0


def test_case_counts_where_the_setting_says_so() -> None:
    assert score(" Paris ", "Paris", case_sensitive=True, strict=False) == 1.0
    assert score("paris", "Paris", case_sensitive=True, strict=False) == 0.0


def test_braces_that_belong_to_no_command_stay() -> None:
    assert without_latex(r"{a} \text{b{c}} \emph{open") == "{a} b{c} open"


def compare(answer: str, expected: str, *, strict: bool = False) -> float:
    return score(answer, expected, case_sensitive=False, strict=strict)

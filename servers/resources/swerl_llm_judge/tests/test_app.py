"""swerl_llm_judge on a real socket, and as a pure function: which letter stands in which block."""

from __future__ import annotations

import time
from typing import Any

import pytest
from choice import extract_choice
from hypothesis import strategies as st

from gym.server import ServerApp
from gym.server.fuzz import fuzz_verify
from gym.server.testing import Rows


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, fields: dict[str, Any]) -> None:
    fuzz_verify(
        app.configured(fields),
        rows,
        texts=["<solution>A</solution>", "<solution>", "</solution>", "<SOLUTION>[b]"],
        values={"grading_mode": st.sampled_from(["lenient", "strict"])},
    )


ABC = frozenset("ABC")


@pytest.mark.parametrize(
    ("text", "lenient", "strict", "only"),
    [
        ("<solution>A</solution>", "A", "A", "A"),
        ("<solution> [b] </solution>", "B", "B", "B"),
        ("<Solution>A</Solution>", "A", None, "A"),
        ("<solution>fix A</solution>", "A", None, None),
        ("<solution>A B</solution>", "A", None, None),
        ("<solution>Z</solution>", None, None, None),
        ("<solution>Fix</solution>", None, None, None),
        ("<solution>A</solution><solution>B</solution>", "B", "A", "B"),
        ("<solution>A</solution><solution>both</solution>", None, "A", None),
        ("<solution>one <solution>A</solution>", "A", "A", "A"),
        ("<solution></solution>", None, None, None),
        ("<solution>A", None, None, None),
        ("A", None, None, None),
    ],
)
def test_which_letter_is_chosen(text: str, lenient: str | None, strict: str | None, only: str | None) -> None:
    assert extract_choice(text, ABC, "lenient") == lenient
    assert extract_choice(text, ABC, "strict") == strict
    assert extract_choice(text, ABC, "strict", only=True) == only


@pytest.mark.parametrize("piece", ["<solution>", "</solution>", "<solution> ", " ", "[", "A "])
def test_a_long_answer_made_to_be_slow_is_not(piece: str) -> None:
    text = "<solution>" + piece * (300_000 // len(piece))
    begun = time.process_time()
    extract_choice(text, ABC, "lenient")
    extract_choice(text, ABC, "strict")
    assert time.process_time() - begun < 5.0  # linear: milliseconds; quadratic: minutes

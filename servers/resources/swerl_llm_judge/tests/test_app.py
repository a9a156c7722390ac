"""swerl_llm_judge on a real socket, and as a pure function: which letter stands in which block."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from choice import extract_choice
from hypothesis import strategies as st

from gym.server.cases import CASES, load_cases, missing_kinds, run_cases
from gym.server.fuzz import fuzz_verify
from gym.server.serve import load_app

HERE = Path(__file__).parents[1]
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (HERE / "data" / "example.jsonl").read_text("utf-8").splitlines()
]


async def test_every_case_ends_as_its_line_says() -> None:
    cases = load_cases(HERE / CASES)
    outcomes = await run_cases(load_app(HERE / "app.py"), "swerl_llm_judge", {}, cases)
    assert not [one for one in outcomes if not one.passed]
    assert not list(missing_kinds(cases))


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(fields: dict[str, Any]) -> None:
    fuzz_verify(
        load_app(HERE / "app.py").configured(fields),
        ROWS,
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

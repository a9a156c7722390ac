"""gpqa_diamond on a real socket, and as pure functions: which letter an answer ends with."""

from __future__ import annotations

from typing import Any

import pytest
from letters import extract_letter, strict_letter

from gym.server import ServerApp
from gym.server.fuzz import fuzz_verify
from gym.server.testing import Caller, Rows, running
from gym.wire.choices import Options


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, fields: dict[str, Any]) -> None:
    fuzz_verify(
        app.configured(fields),
        rows,
        texts=["\\boxed{B}", "Answer: 1.2 eV", "\\boxed{\\mathrm{b}}"],
    )


@pytest.mark.parametrize(
    ("text", "letter", "strictly"),
    [
        (r"\boxed{B}", "B", "B"),
        (r"\boxed{b}", None, "B"),
        (r"\boxed{\mathrm{b}}", None, "B"),
        (r"\boxed{\mathrm{B}}", "B", "B"),
        (r"\boxed{\text{ c }}", None, "C"),
        (r"\boxed{A or B}", "B", None),
        (r"\boxed{ABC} Answer: D", "D", "D"),
        (r"Answer: A \boxed{}", "A", "A"),
        ("__Answer__: *c*. ", "C", "C"),
        ("Answer: Boron", None, None),
        ("Answer: A\nAnswer: D", "D", "D"),
        (r"\boxed{B", None, None),
        ("", None, None),
    ],
)
def test_which_letter_is_read(text: str, letter: str | None, strictly: str | None) -> None:
    assert extract_letter(text) == letter
    assert strict_letter(text, Options({})) == strictly


@pytest.mark.parametrize("form", [r"So \boxed{{{}}}.", "**Answer:** {}\r\n", r"Answer: \boxed{{{}}}"])
def test_strict_takes_a_slot_that_names_one_option_and_no_other(form: str) -> None:
    options = Options.of([{"A": "1.2 eV"}, {"B": "3.0 eV"}, {"C": "12"}, {"D": "none of these"}])
    for right in ("B", "(b)", "**B**", "B) 3.0 eV", "Option B", "3.0 eV", r"\text{B}", "B."):
        assert strict_letter(form.format(right), options) == "B", right
    for wrong in (
        "not B",
        "neither A nor B",
        "(A) (B)",
        "A = B",
        "A or B",
        "B or C",
        "A, B, C, D",
        "B) 12",
        "B is wrong",
        "E",
    ):
        assert strict_letter(form.format(wrong), options) is None, wrong
    assert strict_letter(form.format("B") + r" I put it in \boxed{} as asked.", options) == "B"
    assert strict_letter(form.format("B") + " No wait, it is C.", options) is None
    assert strict_letter(form.format("B") + r" No wait, \boxed{C}", options) == "C"


async def test_metrics_count_majorities_and_silence(app: ServerApp) -> None:
    replies = [
        {"_ng_task_index": 0, "reward": reward, "extracted_answer": answer}
        for reward, answer in ((1.0, "B"), (0.0, None), (1.0, "B"))
    ]
    async with running(app) as url, Caller(url) as caller:
        metrics = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
    assert metrics["majority@3/accuracy"] == 100.0
    assert metrics["pass@1[avg-of-3]/no_answer"] == pytest.approx(100 / 3)

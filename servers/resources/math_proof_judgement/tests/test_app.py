"""math_proof_judgement on a real socket, and as pure functions: what is a judgement, and what many are worth."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from judgement import classifier_rates, confusion, read_judgement, without_thoughts

from gym.server import ServerApp
from gym.server.fuzz import fuzz_verify
from gym.server.testing import Caller, Rows, running


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, fields: dict[str, Any]) -> None:
    fuzz_verify(
        app.configured(fields),
        rows,
        texts=["Judgement: Yes", "**Judgement**: no"],
        values={"expected_judgement": st.sampled_from(["Judgement: yes", "No", "Judgement:"])},
    )


@pytest.mark.parametrize(
    ("text", "verdict", "strictly"),
    [
        ("Judgement: Yes", True, True),
        ("**judgement** : **no**", False, False),
        ("Judgement:\nNo, since", False, False),
        ("Judgement: Nobody knows", False, None),
        ("Judgement: **Yes**. Judgement: No", True, False),
        ("Judgement: Yes = Judgement: No", True, None),
        (r"Judgement: No \lor Judgement: Yes", False, None),
        ("Judgement: No Judgement: Yes", False, None),
        ("Judgement: Yes = No", True, None),
        (r"Judgement: No \text{ is wrong}", False, None),
        ("Judgement: No, since no step\nholds", False, False),
        ("**Judgement:** **Yes**", None, True),
        ("Judgement: perhaps", None, None),
        ("Yes", None, None),
        ("", None, None),
    ],
)
def test_what_is_read_as_a_judgement(text: str, verdict: bool | None, strictly: bool | None) -> None:
    assert read_judgement(text) is verdict
    assert read_judgement(text, strict=True) is strictly


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>a</think>b<thinking>c</thinking>d", "bd"),
        ("a</think>b", "b"),
        ("<think>never ends", "<think>never ends"),
        ("a", "a"),
    ],
)
def test_thoughts_are_taken_out(text: str, left: str) -> None:
    assert without_thoughts(text) == left


async def test_metrics_are_those_of_a_classifier(app: ServerApp) -> None:
    replies = [
        reply(0, "Yes", "Yes"), reply(0, "No", "Yes"), reply(1, "Yes", "No"), reply(1, "No", "No"),
        reply(2, "Yes", "Yes"), reply(2, None, "Yes"),
    ]  # fmt: skip
    async with running(app) as url, Caller(url) as caller:
        metrics = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
    assert metrics["pass@1[avg-of-2]/accuracy"] == 50.0
    assert metrics["pass@2/accuracy"] == 100.0
    assert metrics["pass@1[avg-of-2]/false_positive"] == pytest.approx(100 / 6)
    assert metrics["pass@1[avg-of-1]/precision"] == pytest.approx(200 / 3)
    assert metrics["pass@1[avg-of-1]/recall"] == 100.0
    assert metrics["pass@1[avg-of-2]/recall"] == 50.0
    assert metrics["pass@2/f1"] == 100.0
    assert metrics["majority@2/precision"] == pytest.approx(200 / 3)


def test_no_replies_have_no_rates() -> None:
    assert classifier_rates([]) == {}


def reply(task: int, said: str | None, truth: str) -> dict[str, Any]:
    counts = confusion(read_judgement(f"Judgement: {said}"), read_judgement(f"Judgement: {truth}"))
    fields = {"_ng_task_index": task, "reward": float(said == truth), "extracted_judgement": said}
    return {**fields, "expected_judgement": f"Judgement: {truth}", **counts}

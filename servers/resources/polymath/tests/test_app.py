"""polymath on a real socket, and as pure functions: what is equal, and what becomes of answers that never end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from gym.server import ServerApp
from gym.server.fuzz import fuzz_verify
from gym.server.mathematics import Mathematics, without_delimiters
from gym.server.testing import Caller, Rows, running
from gym.wire.failures import RolloutError
from gym.wire.items import message, response


@pytest.mark.parametrize("fields", [{}, {"strict": True}])
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, fields: dict[str, Any]) -> None:
    fuzz_verify(
        app.configured(fields),
        rows,
        texts=["\\boxed{3}", "$x=3$", "\\boxed{x}"],
        values={"expected_answer": st.sampled_from(["1", "x", "\\frac{1}{2}"])},
        examples=60,
    )


@pytest.mark.parametrize(
    ("text", "bare"), [(r"\( x \)", "x"), ("$x$", "x"), (r"\($x$\)", "x"), ("$", "$"), (" 3 ", "3"), ("", "")]
)
def test_delimiters_of_an_expected_answer_are_taken_off(text: str, bare: str) -> None:
    assert without_delimiters(text) == bare


@pytest.mark.parametrize(
    ("expected", "answer", "equal"),
    [
        ("x^2 + 2x + 1", r"\boxed{(x+1)^2}", True),
        (r"\{1, 2\}", r"\boxed{\{2, 1\}}", True),
        ("0.333333", r"\boxed{\frac{1}{3}}", True),
        (r"\sqrt{8}", r"$2\sqrt{2}$", True),
        ("12", r"\boxed{1} or \boxed{2}", False),
        ("3", "no", False),
    ],
)
async def test_what_is_equal(expected: str, answer: str, equal: bool) -> None:
    mathematics = Mathematics()
    try:
        assert (await mathematics.compare(expected, answer)).equal is equal
    finally:
        await mathematics.close()


async def test_an_answer_that_never_ends_is_worth_0_and_the_next_one_is_compared(app: ServerApp, rows: Rows) -> None:
    app = app.configured({"library_verifier_timeout_seconds": 1.0})
    endless = r"\boxed{9^{9^{9^{9}}}}"
    async with running(app) as url, Caller(url) as caller:
        reply = await caller.post("/verify", rows[1] | {"response": response([message(endless)], model="m")})
        assert (reply.status, reply.body["reward"], reply.body["library_error"]) == (200, 0.0, "timeout")
        assert "costs too much" in reply.body["reason"]
        reply = await caller.post("/verify", rows[1] | {"response": response([message(r"\boxed{3}")], model="m")})
        assert reply.body["reward"] == 1.0


async def test_an_expected_answer_that_takes_too_long_by_itself_is_the_rows_fault() -> None:
    mathematics = Mathematics(seconds=0.001)
    try:
        with pytest.raises(RolloutError, match="cannot be read") as caught:
            await mathematics.compare("x^2 + 2x + 1", r"\boxed{(x + 1)^2}")
    finally:
        await mathematics.close()
    assert caught.value.kind == "row"


async def test_a_box_that_stands_before_a_long_tail_counts(app: ServerApp, rows: Rows) -> None:
    text = r"So \boxed{3}. " + "That was long. " * 2_000
    async with running(app) as url, Caller(url) as caller:
        reply = await caller.post("/verify", rows[1] | {"response": response([message(text)], model="m")})
    assert reply.body["reward"] == 1.0


async def test_metrics_come_for_each_language_and_weighted(app: ServerApp) -> None:
    replies = [
        {"_ng_task_index": 0, "reward": 1.0, "extracted_answer": "1", "language": "de", "weight": 1.0},
        {"_ng_task_index": 1, "reward": 0.0, "extracted_answer": "2", "language": "en", "weight": 3},
        {"_ng_task_index": 2, "reward": 1.0, "extracted_answer": None},
    ]
    async with running(app) as url, Caller(url) as caller:
        metrics = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
    assert metrics["pass@1/symbolic_accuracy"] == pytest.approx(200 / 3)
    assert metrics["de/pass@1/symbolic_accuracy"] == 100.0
    assert metrics["en/pass@1/symbolic_accuracy"] == 0.0
    assert metrics["pass@1/symbolic_accuracy_weighted"] == pytest.approx(40.0)

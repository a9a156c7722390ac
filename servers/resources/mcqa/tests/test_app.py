"""mcqa on a real socket, as an agent meets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from app import Mcqa

from gym.server import ServerApp
from gym.server.testing import Answered, Caller, read_lines, running
from gym.wire.items import message, response

HERE = Path(__file__).parents[1]
ROWS = read_lines(HERE / "data" / "example.jsonl")
ROW = {
    "responses_create_params": {"input": "A, B or C?"},
    "options": [{"A": "Paris"}, {"B": "Rome"}, {"C": "Oslo"}],
    "expected_answer": "B",
}
BOXED_B = r"\boxed{B}"

pytestmark = pytest.mark.asyncio


async def verify(answer: str, settings: dict[str, Any] | None = None, **changes: Any) -> Answered:
    app = Mcqa.app(settings or {}, name="mcqa")
    body = ROW | changes | {"response": response([message(answer)], model="test")}
    async with running(app) as url, Caller(url) as caller:
        return await caller.post("/verify", body)


@pytest.mark.parametrize("row", ROWS)
async def test_of_each_example_the_expected_letter_alone_is_worth_1(app: ServerApp, row: dict[str, Any]) -> None:
    async with running(app) as url, Caller(url) as caller:
        for letter in "ABCD":
            answer = response([message(rf"It must be \boxed{{{letter}}}.")], model="test")
            reply = await caller.post("/verify", row | {"response": answer})
            assert reply.body["reward"] == float(letter == row["expected_answer"])
            assert reply.body["extracted_answer"] == letter


async def test_the_request_is_echoed_with_the_reward() -> None:
    reply = await verify(BOXED_B, uuid="u1", metadata={"a": [1]})
    assert reply.body["uuid"] == "u1"
    assert reply.body["metadata"] == {"a": [1]}
    assert (reply.body["reward"], reply.body["expected_answer"], reply.body["extracted_answer"]) == (1.0, "B", "B")
    assert "reason" not in reply.body


async def test_the_expected_letter_may_be_written_carelessly() -> None:
    reply = await verify(BOXED_B, expected_answer=" b ")
    assert (reply.body["reward"], reply.body["expected_answer"]) == (1.0, "B")


@pytest.mark.parametrize("answer", ["", "   ", "no idea", r"\boxed{b}", r"\boxed{C}"])
async def test_any_other_answer_is_worth_0(answer: str) -> None:
    assert (await verify(answer)).body["reward"] == 0.0


async def test_a_row_chooses_its_mode_and_the_configuration_overrules_it() -> None:
    assert (await verify("Answer: Rome", grading_mode="lenient_answer_colon")).body["reward"] == 1.0
    assert (await verify(BOXED_B, grading_mode="lenient_answer_colon")).body["reward"] == 0.0
    overruled = {"grading_mode": "strict_single_letter_boxed"}
    assert (await verify(BOXED_B, overruled, grading_mode="lenient_answer_colon")).body["reward"] == 1.0


async def test_the_rows_pattern_comes_before_its_mode() -> None:
    template = {"output_regex": r"choice: (\w)"}
    assert (await verify(r"Choice: C. Choice: b. \boxed{A}", template_metadata=template)).body["reward"] == 1.0
    assert (await verify(BOXED_B, template_metadata=template)).body["reward"] == 1.0


async def test_of_several_patterns_the_first_that_answers_counts() -> None:
    template = {"output_regex": [r"never (\w)", r"(Choice|Pick): (\w+)", r"(A)"]}
    assert (await verify("A? Pick: rome", template_metadata=template)).body["extracted_answer"] == "B"


async def test_an_invalid_pattern_is_skipped_and_named() -> None:
    reply = (await verify(BOXED_B, template_metadata={"output_regex": "("})).body
    assert reply["reward"] == 1.0
    assert "output_regex" in reply["reason"]


async def test_an_answer_on_which_a_pattern_never_ends_is_worth_0_and_no_new_attempt() -> None:
    reply = await verify("a" * 64 + "b", template_metadata={"output_regex": "(a+)+$"})
    assert (reply.status, reply.body["reward"], reply.body["library_error"]) == (200, 0.0, "timeout")
    assert "output_regex" in reply.body["reason"]


@pytest.mark.parametrize("options", [[], None])
async def test_no_options_are_worth_0_and_say_so(options: Any) -> None:
    reply = (await verify(BOXED_B, options=options)).body
    assert (reply["reward"], reply["reason"]) == (0.0, "the row has no options")


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"grading_mode": "by_feeling"}, "grading_mode"),
        ({"options": "A"}, "options"),
        ({"expected_answer": None}, "expected_answer"),
        ({"template_metadata": {"output_regex": 5}}, "template_metadata.output_regex"),
    ],
)
async def test_a_row_that_is_wrong_is_the_rows_fault(changes: dict[str, Any], place: str) -> None:
    reply = await verify(BOXED_B, **changes)
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")
    assert place in reply.body["error"]["message"]


async def test_metrics_count_majorities_and_silence(app: ServerApp) -> None:
    replies = [
        {"_ng_task_index": 0, "reward": reward, "extracted_answer": answer}
        for reward, answer in ((1.0, "B"), (0.0, "A"), (1.0, "B"), (0.0, None))
    ]
    async with running(app) as url, Caller(url) as caller:
        metrics = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
        mode = await caller.get("/reverify_mode")
    assert mode.body == "stateless"
    assert metrics["pass@1/accuracy"] == 50.0
    assert metrics["pass@4/accuracy"] == 100.0
    assert metrics["pass@1[avg-of-4]/accuracy"] == 50.0
    assert metrics["majority@4/accuracy"] == 100.0
    assert metrics["pass@1[avg-of-4]/no_answer"] == 25.0
    assert metrics["mean/reward"] == 0.5

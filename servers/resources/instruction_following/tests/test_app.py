"""instruction_following on a real socket, as an agent meets it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from app import InstructionFollowing
from instruction_samples import IFBENCH, IFEVAL, IFTRAIN, STRICT_GOOD

from gym.server import ServerApp
from gym.server.cases import CASES, load_cases, run_cases
from gym.server.testing import Caller, Rows, body_of, running, verify

HERE = Path(__file__).parents[1]
TITLE = "<<A walk>>\nUp the hill."


async def test_every_case_ends_as_its_line_says(app: ServerApp) -> None:
    outcomes = await run_cases(app, "instruction_following", {}, load_cases(HERE / CASES))
    assert not [one for one in outcomes if not one.passed]
    assert not [one for one in outcomes if one.got == "reward 0" and not one.reason]


async def test_each_instruction_is_reported_and_the_request_echoed(app: ServerApp, rows: Rows) -> None:
    body = body_of(rows[0] | {"odd": {"kept": [None]}}, "<<A walk>>\nUp, up the hill.")
    reply = (await verify(app, body)).body
    assert reply | body == reply
    assert reply["follow_instruction_list"] == [True, False, True]
    assert reply["follow_all_instructions"] is False
    assert reply["grading_mode"] == "binary"
    assert reply["reason"] == "punctuation:no_comma: not followed"


async def test_the_configuration_overrules_how_a_row_is_graded(rows: Rows) -> None:
    app = InstructionFollowing.app({"grading_mode": "fraction"}, name="i")
    assert (await verify(app, body_of(rows[0], "<<A walk>>\nUp, up."))).body["reward"] == pytest.approx(2 / 3)


async def test_an_answer_on_which_a_pattern_of_the_row_never_ends_is_worth_0_and_no_new_attempt(rows: Rows) -> None:
    row = rows[0] | {"verifier_metadata": {"instruction_id_list": ["keywords:existence"], "kwargs": None}}
    row["verifier_metadata"]["kwargs"] = [{"keywords": ["(a+)+$"]}]
    app = InstructionFollowing.app({"cpu_seconds": 0.5}, name="i")
    async with running(app) as url, Caller(url) as one, Caller(url) as other:
        slow = asyncio.create_task(one.post("/verify", body_of(row, "a" * 64 + "b")))
        quick = await other.post("/verify", body_of(rows[0], TITLE))
        assert quick.body["reward"] == 1.0
        reply = await slow
    assert (reply.status, reply.body["reward"], reply.body["library_error"]) == (200, 0.0, "timeout")
    assert "checking the answer costs too much" in reply.body["reason"]


async def test_an_answer_of_five_megabytes_follows_nothing_and_says_why(rows: Rows) -> None:
    reply = await verify(InstructionFollowing.app({}, name="i"), body_of(rows[0], "word. " * 900_000))
    assert (reply.status, reply.body["follow_instruction_list"]) == (200, [False, False, False])
    assert reply.body["reason"] == "the answer is longer than 500,000 characters"


async def test_a_hundred_at_once_are_graded_as_one_by_one(rows: Rows) -> None:
    bodies = [body_of(rows[index % 5], TITLE * (index % 3)) for index in range(100)]
    async with running(InstructionFollowing.app({}, name="i")) as url, Caller(url) as caller:
        alone = [(await caller.post("/verify", body)).body["follow_instruction_list"] for body in bodies]
        replies = await asyncio.gather(*(caller.post("/verify", body) for body in bodies))
    assert [one.body["follow_instruction_list"] for one in replies] == alone


async def test_metrics_count_rows_and_instructions() -> None:
    replies = [
        {"_ng_task_index": 0, "reward": reward, "follow_instruction_list": followed}
        for reward, followed in ((1.0, [True, True]), (0.0, [True, False]))
    ]
    async with running(InstructionFollowing.app({}, name="i")) as url, Caller(url) as caller:
        metrics = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
        assert (await caller.get("/reverify_mode")).body == "stateless"
    assert metrics["mean/instruction_accuracy"] == 0.75
    assert metrics["pass@2/accuracy"] == 100.0


PROMPT = "Tell me of tea. Say hi there to all my friends."
EMPTY = ("", " ", ".", '""', "🙂", "\u200b", "```\n```", "½ ①", PROMPT, f"> {PROMPT.upper()}\r\n", f'"{PROMPT}"')
LINES = {  # answers whose lines end as they do on Windows, or are followed by several empty ones
    "paragraphs:paragraphs2": (({}), "One.\r\n\r\nTwo."),
    "length_constraints:nth_paragraph_first_word": (
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Then"},
        "First.\r\n \r\n\r\n\r\nThen so.",
    ),
    "copy:copy": ({"prompt_to_repeat": "Say hi.\r\nThen go."}, "Say hi.\nThen go."),
    "custom:csv_city": ({}, "\n\nID,Country,City,Year,Count\r\n" + "1,Chad,Sarh,2001,5\r\n" * 7),
}


def asking(instruction: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    asked = {"instruction_id_list": [instruction], "kwargs": [kwargs], "prompt": PROMPT}
    return {"responses_create_params": {"input": PROMPT}, "verifier_metadata": asked}


@pytest.mark.parametrize("suite", ["ifeval", "ifbench"])
async def test_in_strict_no_instruction_is_followed_by_an_answer_without_content_or_by_the_prompt(suite: str) -> None:
    samples = IFBENCH if suite == "ifbench" else [*IFEVAL, *IFTRAIN]
    paid: list[tuple[str, str]] = []
    async with running(InstructionFollowing.app({"strict": True, "suite": suite}, name="i")) as url, Caller(url) as one:
        for instruction, kwargs, good, _bad in samples:
            row = asking(instruction, kwargs)
            rewards = {text: (await one.post("/verify", body_of(row, text))).body["reward"] for text in EMPTY}
            paid += [(instruction, text) for text, reward in rewards.items() if reward]
            good = STRICT_GOOD.get(instruction, good)
            assert (await one.post("/verify", body_of(row, good))).body["reward"] == 1.0, instruction
    assert not paid


async def test_a_copy_of_the_whole_prompt_pays_where_a_copy_is_asked_for() -> None:
    app = InstructionFollowing.app({"strict": True}, name="i")
    row = asking("copy:copy", {"prompt_to_repeat": PROMPT})
    assert (await verify(app, body_of(row, PROMPT))).body["reward"] == 1.0


@pytest.mark.parametrize("instruction", LINES)
async def test_how_lines_end_and_how_many_are_empty_costs_nothing_in_strict(instruction: str) -> None:
    kwargs, text = LINES[instruction]
    for strict in (False, True):
        app = InstructionFollowing.app({"strict": strict}, name="i")
        assert (await verify(app, body_of(asking(instruction, kwargs), text))).body["reward"] == float(strict)

"""citation_if on a real socket, as an agent meets it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from app import NO_MORE_TOOLS, REASONS, CitationIf
from scoring import GRAMMARS

from gym.server import ServerApp
from gym.server.cases import CASES, load_cases, run_cases
from gym.server.testing import Caller, Rows, body_of, running, verify
from gym.wire.items import message, response

HERE = Path(__file__).parents[1]
GOOD = "The kiwi [citation_4kq2]."


async def test_every_case_ends_as_its_line_says(app: ServerApp) -> None:
    outcomes = await run_cases(app, "citation_if", {}, load_cases(HERE / CASES))
    assert not [one for one in outcomes if not one.passed]
    assert not [one for one in outcomes if one.got == "reward 0" and not one.reason]


async def test_the_request_is_echoed_with_what_was_cited(rows: Rows) -> None:
    body = body_of(rows[0] | {"odd": {"kept": [None]}}, "Emus [citation_t3xw].")
    reply = (await verify(CitationIf.app({}, name="c"), body)).body
    assert reply | body == reply
    details = reply["match_details"]
    assert (details["gate_failed"], details["cited_ids"]) == ("correctness_missed_gold", ["citation_t3xw"])
    assert details["missed_ids"] == ["citation_4kq2"]
    assert reply["reason"] == f"correctness_missed_gold: {REASONS['correctness_missed_gold']}"


async def test_any_tool_is_answered_with_the_end_of_research(rows: Rows) -> None:
    async with running(CitationIf.app({}, name="c")) as url, Caller(url) as caller:
        for tool in ("search", "open_page"):
            reply = await caller.post(f"/{tool}", {"query": "kiwi"})
            assert (reply.status, reply.body) == (200, NO_MORE_TOOLS.encode())
        assert (await caller.post("/verify", body_of(rows[0], GOOD))).body["reward"] == 1.0


async def test_the_answer_may_come_in_several_messages(rows: Rows) -> None:
    body = rows[0] | {"response": response([message("The kiwi"), message("[citation_4kq2].")], model="m")}
    assert (await verify(CitationIf.app({}, name="c"), body)).body["reward"] == 1.0


async def test_an_answer_on_which_a_pattern_of_the_row_never_ends_is_worth_0_and_no_new_attempt(rows: Rows) -> None:
    row = rows[0] | {"verifier": rows[0]["verifier"] | {"id_regex": "(a+)+"}}
    reply = await verify(CitationIf.app({"cpu_seconds": 0.5}, name="c"), body_of(row, "[" + "a" * 64))
    assert (reply.status, reply.body["reward"], reply.body["library_error"]) == (200, 0.0, "timeout")
    assert "checking the answer costs too much" in reply.body["reason"]


@pytest.mark.parametrize("grammar", sorted(GRAMMARS))
async def test_an_answer_of_five_megabytes_is_scored(rows: Rows, grammar: str) -> None:
    row = rows[0] | {"verifier": rows[0]["verifier"] | {"grammar": grammar}}
    reply = await verify(CitationIf.app({}, name="c"), body_of(row, '[<cite index="citation_4kq2">' * 180_000))
    assert (reply.status, reply.body["reward"]) == (200, 0.0)


async def test_a_hundred_at_once_are_scored_as_one_by_one(rows: Rows) -> None:
    bodies = [body_of(rows[index % 5], GOOD * (index % 2)) for index in range(100)]
    async with running(CitationIf.app({}, name="c")) as url, Caller(url) as caller:
        alone = [(await caller.post("/verify", body)).body["reward"] for body in bodies]
        replies = await asyncio.gather(*(caller.post("/verify", body) for body in bodies))
        assert (await caller.get("/reverify_mode")).body == "stateless"
    assert [one.body["reward"] for one in replies] == alone

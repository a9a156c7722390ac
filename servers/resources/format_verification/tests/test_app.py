"""format_verification on a real socket, as an agent meets it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from app import FormatVerification

from gym.server import ServerApp
from gym.server.cases import CASES, load_cases, run_cases
from gym.server.testing import Caller, Rows, body_of, running, verify

HERE = Path(__file__).parents[1]
BULLETS = "▪ A lamp\n▪ A mat\n▪ Matches\n▪ Warm socks"


async def test_every_case_ends_as_its_line_says(app: ServerApp) -> None:
    outcomes = await run_cases(app, "format_verification", {}, load_cases(HERE / CASES))
    assert not [one for one in outcomes if not one.passed]
    assert not [one for one in outcomes if one.got == "reward 0" and not one.reason]


async def test_the_request_is_echoed_with_what_matched(rows: Rows) -> None:
    body = body_of(rows[3] | {"odd": {"kept": [None]}}, "Moss [ref:1] [ref:7].")
    reply = (await verify(FormatVerification.app({}, name="f"), body)).body
    assert reply | body == reply
    assert reply["match_details"]["missing"] == ["[ref:2]"]
    assert reply["reason"] == "missing: [ref:2]; spurious: [ref:7]"


@pytest.mark.parametrize(
    "verifier",
    [
        {"type": "regex", "verify_regex": ["(a+)+$"]},
        {"type": "string_match", "expected_markers": ["x"], "patterns": ["(a+)+$"]},
    ],
)
async def test_an_answer_on_which_a_pattern_of_the_row_never_ends_is_worth_0_and_no_new_attempt(
    rows: Rows, verifier: dict[str, Any]
) -> None:
    async with (
        running(FormatVerification.app({"cpu_seconds": 0.5}, name="f")) as url,
        Caller(url) as one,
        Caller(url) as other,
    ):
        slow = asyncio.create_task(one.post("/verify", body_of(rows[0] | {"verifier": verifier}, "a" * 64 + "b")))
        assert (await other.post("/verify", body_of(rows[0], BULLETS))).body["reward"] == 1.0
        reply = await slow
    assert (reply.status, reply.body["reward"], reply.body["library_error"]) == (200, 0.0, "timeout")
    assert "checking the answer costs too much" in reply.body["reason"]


async def test_a_pattern_that_is_none_names_its_field(rows: Rows) -> None:
    row = rows[0] | {"verifier": {"type": "string_match", "patterns": ["("]}}
    reply = await verify(FormatVerification.app({}, name="f"), body_of(row, "x"))
    assert reply.body["error"]["message"].startswith("verifier.patterns: '(' is not a pattern")


async def test_an_answer_of_five_megabytes_is_scored_and_its_markers_not_all_listed(rows: Rows) -> None:
    reply = await verify(FormatVerification.app({}, name="f"), body_of(rows[3], "[ref:9] " * 650_000))
    assert (reply.status, reply.body["reward"], len(reply.body["match_details"]["spurious"])) == (200, 0.0, 100)


async def test_a_hundred_at_once_are_scored_as_one_by_one(rows: Rows) -> None:
    bodies = [body_of(rows[index % 5], BULLETS * (index % 2)) for index in range(100)]
    async with running(FormatVerification.app({}, name="f")) as url, Caller(url) as caller:
        alone = [(await caller.post("/verify", body)).body["reward"] for body in bodies]
        replies = await asyncio.gather(*(caller.post("/verify", body) for body in bodies))
        assert (await caller.get("/reverify_mode")).body == "stateless"
    assert [one.body["reward"] for one in replies] == alone

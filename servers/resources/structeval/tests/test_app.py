"""structeval on a real socket, as an agent meets it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from app import StructEval

from gym.server import ServerApp
from gym.server.cases import CASES, load_cases, run_cases
from gym.server.testing import Caller, Rows, body_of, running, verify

HERE = Path(__file__).parents[1]
ZOO = '{"zoo": {"name": "Oak", "animals": [{"name": "Owl"}, {"legs": 4}]}}'


async def test_every_case_ends_as_its_line_says(app: ServerApp) -> None:
    outcomes = await run_cases(app, "structeval", {}, load_cases(HERE / CASES))
    assert not [one for one in outcomes if not one.passed]
    assert not [one for one in outcomes if one.got == "reward 0" and not one.reason]


async def test_the_request_is_echoed_with_every_score(rows: Rows) -> None:
    body = body_of(rows[0] | {"odd": {"kept": [None]}}, ZOO.replace("legs", "feet"))
    reply = (await verify(StructEval.app({}, name="s"), body)).body
    assert reply | body == reply
    scores = {name: reply[name] for name in ("reward", "render_score", "key_validation_score", "error_type")}
    assert scores == {
        "reward": 0.73,
        "render_score": 1.0,
        "key_validation_score": pytest.approx(2 / 3),
        "error_type": None,
    }
    assert reply["reason"] == "missing: zoo.animals[1].legs"


async def test_a_row_without_paths_is_worth_its_syntax_and_says_why(rows: Rows) -> None:
    reply = (await verify(StructEval.app({}, name="s"), body_of(rows[0] | {"raw_output_metric": []}, ZOO))).body
    assert (reply["reward"], reply["reason"]) == (0.2, "the row expects no paths")


async def test_an_answer_of_five_megabytes_is_worth_0(rows: Rows) -> None:
    reply = await verify(
        StructEval.app({}, name="s"), body_of(rows[1] | {"output_type": "YAML"}, "```" + "a: [1]\n" * 700_000)
    )
    assert (reply.status, reply.body["error_type"]) == (200, "parse_error")


async def test_a_hundred_at_once_are_scored_as_one_by_one(rows: Rows) -> None:
    bodies = [body_of(rows[0], ZOO[: len(ZOO) - index % 2]) for index in range(100)]
    async with running(StructEval.app({}, name="s")) as url, Caller(url) as caller:
        alone = [(await caller.post("/verify", body)).body["reward"] for body in bodies]
        replies = await asyncio.gather(*(caller.post("/verify", body) for body in bodies))
    assert [one.body["reward"] for one in replies] == alone


async def test_metrics_are_means_by_format_and_task(rows: Rows) -> None:
    replies = [
        {
            "reward": reward,
            "render_score": 1.0,
            "key_validation_score": reward,
            **{key: rows[0][key] for key in rows[0]},
        }
        for reward in (1.0, 0.5)
    ]
    async with running(StructEval.app({}, name="s")) as url, Caller(url) as caller:
        metrics = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
        assert (await caller.get("/reverify_mode")).body == "stateless"
    for name in ("reward_output_JSON", "reward_input_Text", "reward_Text to JSON", "key_validation_score_JSON"):
        assert metrics[f"mean/{name}"] == 0.75, name
    assert metrics["mean/render_score"] == 1.0

"""structured_outputs on a real socket, as an agent meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from app import StructuredOutputs

from gym.server import ServerApp
from gym.server.cases import CASES, load_cases, run_cases
from gym.server.testing import Caller, Rows, body_of, running, verify
from gym.wire.items import function_call, message, response

HERE = Path(__file__).parents[1]
BOOK = '{"title": "A", "pages": 3, "tags": []}'


async def test_every_case_ends_as_its_line_says(app: ServerApp) -> None:
    outcomes = await run_cases(app, "structured_outputs", {}, load_cases(HERE / CASES))
    assert not [one for one in outcomes if not one.passed]
    assert not [one for one in outcomes if one.got == "reward 0" and not one.reason]


async def test_the_request_is_echoed_and_an_error_named(rows: Rows) -> None:
    body = body_of(rows[0] | {"odd": {"kept": [None]}}, BOOK.replace("3", "0"))
    reply = (await verify(StructuredOutputs.app({}, name="s"), body)).body
    assert reply | body == reply
    assert (reply["reward"], reply["error_type"]) == (0.0, "validation_error")
    assert "$.pages" in reply["error_message"]
    assert reply["reason"].startswith("validation_error: ")


async def test_all_parts_of_the_answer_are_one_text(rows: Rows) -> None:
    body = rows[0] | {"response": response([message(BOOK[:9]), message(BOOK[9:])], model="m")}
    assert (await verify(StructuredOutputs.app({}, name="s"), body)).body["reward"] == 1.0


async def test_a_failed_reply_is_distinguished_from_one_without_a_call(rows: Rows) -> None:
    row = rows[0] | {"response_mode": "tool_call"}
    reply = response([function_call("any", BOOK)], model="m")
    app = StructuredOutputs.app({}, name="s")
    assert (await verify(app, row | {"response": reply})).body["reward"] == 1.0
    failed = reply | {"error": {"code": "server_error", "message": "out of order"}}
    assert (await verify(StructuredOutputs.app({}, name="s"), row | {"response": failed})).body[
        "error_type"
    ] == "api_error"


async def test_xml_texts_stay_texts_where_types_are_not_wanted() -> None:
    cases = load_cases(HERE / CASES)
    answer = next(case for case in cases if case.name == "a perfect answer to example row 4").request
    reply = (await verify(StructuredOutputs.app({"xml_coerce_types": False}, name="s"), answer)).body
    assert (reply["reward"], reply["error_type"]) == (0.0, "validation_error")


async def test_an_answer_on_which_a_pattern_of_the_schema_never_ends_is_worth_0_and_no_new_attempt(rows: Rows) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    row = rows[0] | {"schema_str": json.dumps(schema)}
    reply = await verify(
        StructuredOutputs.app({"cpu_seconds": 0.5}, name="s"), body_of(row, json.dumps({"x": "a" * 64 + "b"}))
    )
    assert (reply.status, reply.body["reward"], reply.body["library_error"]) == (200, 0.0, "timeout")
    assert "checking the answer costs too much" in reply.body["reason"]


async def test_a_reference_to_an_address_is_an_error_and_not_a_download(rows: Rows) -> None:
    asked: list[str] = []

    async with running(StructuredOutputs.app({}, name="s")) as url, Caller(url) as caller:
        schema = {"$ref": f"{url}/healthz"}
        reply = await caller.post("/verify", body_of(rows[0] | {"schema_str": json.dumps(schema)}, BOOK))
    assert (reply.body["reward"], reply.body["error_type"]) == (0.0, "validation_error")
    assert "nresolvable" in reply.body["error_message"]
    assert asked == []


@pytest.mark.parametrize("kind", ["json", "yaml", "toml", "xml", "csv"])
async def test_an_answer_of_five_megabytes_is_worth_0(rows: Rows, kind: str) -> None:
    reply = await verify(
        StructuredOutputs.app({}, name="s"), body_of(rows[0] | {"schema_type": kind}, "[1, " * 1_250_000)
    )
    assert (reply.status, reply.body["error_type"]) == (200, "parse_error")


async def test_metrics_are_means_by_format() -> None:
    replies = [{"reward": reward, "schema_type": kind} for reward, kind in ((1.0, "xml"), (0.0, "xml"), (1.0, "csv"))]
    async with running(StructuredOutputs.app({}, name="s")) as url, Caller(url) as caller:
        metrics = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
        assert (await caller.get("/reverify_mode")).body == "stateless"
    assert (metrics["mean/reward_xml"], metrics["mean/reward_csv"]) == (0.5, 1.0)

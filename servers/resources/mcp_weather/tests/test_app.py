"""mcp_weather on a real socket, over HTTP and with the real MCP client: whose call counts for whom."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from app import McpWeather, answer_text
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent

from gym.server.testing import Caller, read_lines, running
from gym.wire.items import function_call, message, response

DATA = Path(__file__).parents[1] / "data"
ROWS = read_lines(DATA / "example.jsonl")
CASES = [json.loads(line) for line in (DATA / "verifier_cases.jsonl").read_text("utf-8").splitlines()]
PARIS = ROWS[0]
SUNNY = "The weather in Paris is sunny and 72 F."
SAID_SUNNY = {"response": response([message(SUNNY)], model="m")}


@asynccontextmanager
async def weather() -> AsyncIterator[Caller]:
    async with running(McpWeather.app({}, name="mcp_weather")) as url, Caller(url) as caller:
        yield caller


@asynccontextmanager
async def connected(url: str, advert: dict[str, Any]) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=advert["headers"]) as http,
        Client(streamable_http_client(url + advert["url_path"], http_client=http)) as client,
    ):
        yield client


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_a_case_of_the_folder_scores_as_it_says(case: dict[str, Any]) -> None:
    row = {key: value for key, value in case["request"].items() if key != "response"}
    async with weather() as caller:
        await caller.post("/seed_session", row)
        for step in case.get("steps", ()):
            assert (await caller.post(f"/{step['tool']}", step["arguments"])).body == step["output"]
        reply = await caller.post("/verify", case["request"])
    if "expected_error" in case:
        assert reply.status == case["expected_error"]["status"]
        assert reply.body["error"]["kind"] == case["expected_error"]["kind"]
        return
    assert (reply.status, reply.body["reward"]) == (200, case["expected_reward"])
    assert reply.body | case.get("expected_fields", {}) == reply.body
    assert ("reason" in reply.body) == (reply.body["reward"] == 0.0)


async def test_a_call_over_mcp_counts_for_the_session_of_its_token() -> None:
    async with weather() as one, Caller(one.url) as other:
        advert = (await one.post("/seed_session", PARIS)).body["mcp"]
        await other.post("/seed_session", PARIS)
        async with connected(one.url, advert) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["get_weather"]
            result = await client.call_tool("get_weather", {"city": "PARIS"})
            (text,) = result.content
            assert isinstance(text, TextContent)
            assert json.loads(text.text) == {"weather": "The weather in PARIS is sunny and 72 F."}
        assert (await other.post("/verify", PARIS | SAID_SUNNY)).body["reward"] == 0.0
        assert (await one.post("/verify", PARIS | SAID_SUNNY)).body["reward"] == 1.0


@pytest.mark.parametrize("token", ["", "made.up"])
async def test_a_call_over_mcp_without_a_token_of_this_server_counts_for_no_rollout(token: str) -> None:
    async with weather() as caller:
        advert = (await caller.post("/seed_session", PARIS)).body["mcp"]
        names = {name: token for name in advert["headers"]} if token else {}
        async with connected(caller.url, {**advert, "headers": names}) as client:
            result = await client.call_tool("get_weather", {"city": "Paris"})
            assert result.is_error
        assert (await caller.post("/verify", PARIS | SAID_SUNNY)).body["tool_call_seen"] is False


async def test_names_with_the_prefix_of_an_mcp_client_come_back_as_they_were() -> None:
    called = function_call("mcp__mcp_weather__get_weather", '{"city": "Paris"}')
    body = PARIS | {"response": response([called, message(SUNNY)], model="m")}
    async with weather() as caller:
        await caller.post("/seed_session", PARIS)
        await caller.post("/get_weather", {"city": "Paris"})
        reply = (await caller.post("/verify", body)).body
    assert reply["reward"] == 1.0
    assert reply["response"]["output"][0]["name"] == "mcp__mcp_weather__get_weather"


async def test_a_call_without_a_seed_is_answered_and_counts_for_its_cookie() -> None:
    async with weather() as caller:
        assert (await caller.post("/get_weather", {"city": "Paris"})).body == {"weather": SUNNY}
        assert (await caller.post("/verify", PARIS | SAID_SUNNY)).body["reward"] == 1.0


async def test_seeding_again_forgets_the_calls() -> None:
    async with weather() as caller:
        await caller.post("/seed_session", PARIS)
        await caller.post("/get_weather", {"city": "Paris"})
        await caller.post("/seed_session", PARIS)
        assert (await caller.post("/verify", PARIS | SAID_SUNNY)).body["tool_call_seen"] is False


async def test_verify_without_a_session_says_so() -> None:
    async with weather() as caller:
        reply = (await caller.post("/verify", PARIS | SAID_SUNNY)).body
    assert (reply["reward"], reply["final_response_mentions_weather"]) == (0.0, True)
    assert "seed_session" in reply["reason"]


def test_the_text_of_an_answer_is_every_assistant_text_a_line_each() -> None:
    assert answer_text([message("a"), message("u", role="user"), {"type": "reasoning"}, message("b ")]) == "a\nb"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(st.dictionaries(st.sampled_from(["type", "role", "content", "text"]), ANYTHING, max_size=4), max_size=4)
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_any_output_has_a_text(output: list[dict[str, Any]]) -> None:
    assert isinstance(answer_text(output), str)

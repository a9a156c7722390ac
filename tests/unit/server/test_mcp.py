"""Tools over MCP: the real client of the `mcp` package, over a real socket."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import httpx2
import pytest
from fastapi import FastAPI
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, Field

from gym.errors import UserError
from gym.server import ResourcesServer, Row, VerifyRequest, tool
from gym.server.config import Settings
from gym.server.mcp import take_prefixes_off
from gym.server.mcp_tokens import TOKEN_HEADER, read_token, sign_session
from gym.server.resources import ResourcesConfig
from gym.server.testing import Caller, running
from gym.wire.failures import RolloutError
from gym.wire.items import function_call, message, response

ROW: dict[str, Any] = {"responses_create_params": {"input": "x"}}
Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, ...] = ("auto", "legacy")  # the newest protocol, and the one that begins with `initialize`


@dataclass
class Calls:
    names: list[str] = field(default_factory=list)


class Diary(ResourcesServer[Calls]):
    async def seed(self, row: Row) -> Calls:
        return Calls()

    @tool
    async def write(self, line: str, state: Calls) -> dict[str, int]:
        """Write a line."""
        state.names.append(line)
        return {"lines": len(state.names)}

    @tool
    async def today(self) -> str:
        """The date."""
        return "Friday"

    @tool
    async def tear(self, state: Calls) -> None:
        """Break it."""
        raise OSError("torn")

    async def verify(self, rollout: VerifyRequest, state: Calls | None) -> dict[str, Any]:
        return {
            "reward": float(len(state.names) if state else -1),
            "seen": [one["name"] for one in rollout.function_calls],
        }


def diary() -> Any:
    return Diary.app({"expose_tools_over_mcp": True}, name="my diary")


@asynccontextmanager
async def client_of(url: str, headers: dict[str, str], mode: Mode = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def seeded(caller: Caller) -> dict[str, str]:
    """A session, and the headers that its MCP client sends."""
    advert = (await caller.post("/seed_session", ROW)).body["mcp"]
    assert {key: advert[key] for key in ("server_name", "url_path", "transport")} == {
        "server_name": "my diary",
        "url_path": "/mcp",
        "transport": "http",
    }
    headers: dict[str, str] = advert["headers"]
    return headers


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize("mode", MODES)
async def test_the_tools_are_listed_with_their_schemas(mode: Mode) -> None:
    async with running(diary()) as url, client_of(url, {}, mode) as client:
        tools = {one.name: one for one in (await client.list_tools()).tools}
    assert sorted(tools) == ["tear", "today", "write"]
    assert tools["write"].description == "Write a line."
    assert tools["write"].input_schema["properties"] == {"line": {"type": "string"}}
    assert tools["write"].input_schema["required"] == ["line"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_rollouts_state_is_one_over_mcp_and_http(mode: Mode) -> None:
    async with running(diary()) as url, Caller(url) as caller:
        headers = await seeded(caller)
        async with client_of(url, headers, mode) as client:
            assert text_of(await client.call_tool("write", {"line": "over MCP"})) == '{"lines":1}'
            assert (await caller.post("/write", {"line": "over HTTP"})).body == {"lines": 2}
            assert text_of(await client.call_tool("write", {"line": "over MCP"})) == '{"lines":3}'
        verified = await caller.post("/verify", ROW | {"response": {"output": []}})
    assert verified.body["reward"] == 3.0


async def test_two_rollouts_have_two_sessions_over_mcp() -> None:
    async with (
        running(diary()) as url,
        Caller(url) as one,
        Caller(url) as other,
        client_of(url, await seeded(one)) as first,
        client_of(url, await seeded(other)) as second,
    ):
        await first.call_tool("write", {"line": "mine"})
        assert text_of(await second.call_tool("write", {"line": "mine"})) == '{"lines":1}'


async def test_a_failure_has_the_text_that_the_http_route_has() -> None:
    async with running(diary()) as url, Caller(url) as caller, client_of(url, await seeded(caller)) as client:
        bad = await client.call_tool("write", {"lines": 1})
        assert bad.is_error
        assert text_of(bad).encode() == (await caller.post("/write", {"lines": 1})).reply.body
        broken = await client.call_tool("tear", {})
        assert broken.is_error
        assert text_of(broken).encode() == (await caller.post("/tear")).reply.body
        assert re.search(r"OSError: torn \(test_mcp.py:\d+ in tear\)", text_of(broken))  # no code: a policy reads it


@pytest.mark.parametrize("name", ["verify", "seed_session", "nothing", "../verify"])
async def test_an_unknown_tool_is_reported_and_reaches_no_route(name: str) -> None:
    async with running(diary()) as url, Caller(url) as caller, client_of(url, await seeded(caller)) as client:
        reply = await client.call_tool(name, {})
    assert reply.is_error
    assert "there is no tool named" in text_of(reply)
    assert "tear, today, write" in text_of(reply)


async def test_a_tool_with_state_needs_the_token_and_one_without_does_not() -> None:
    async with running(diary()) as url, client_of(url, {}) as client:
        refused = await client.call_tool("write", {"line": "whose?"})
        assert refused.is_error
        assert f"401: {TOKEN_HEADER} is missing" in text_of(refused)
        assert text_of(await client.call_tool("today", {})) == '"Friday"'


async def test_a_forged_token_is_refused() -> None:
    async with running(diary()) as url, Caller(url) as caller:
        headers = await seeded(caller)
        session_id, _, signature = headers[TOKEN_HEADER].partition(".")
        forged = [f"{session_id}.{'0' * len(signature)}", f"{'0' * 32}.{signature}", session_id, signature, "x.y.z"]
        for token in (*forged, sign_session(b"another process", session_id)):
            async with client_of(url, {TOKEN_HEADER: token}) as client:
                for name, arguments in (("write", {"line": "not mine"}), ("today", {})):
                    reply = await client.call_tool(name, arguments)
                    assert reply.is_error
                    assert "401: " in text_of(reply)
        assert (await caller.post("/write", {"line": "mine"})).body == {"lines": 1}


async def test_a_session_that_was_verified_is_lost_to_its_token() -> None:
    async with running(diary()) as url, Caller(url) as caller, client_of(url, await seeded(caller)) as client:
        await caller.post("/verify", ROW | {"response": {"output": []}})
        reply = await client.call_tool("write", {"line": "too late"})
    assert reply.is_error
    assert '"lost_session"' in text_of(reply)


async def test_verify_sees_plain_names_and_the_echo_keeps_what_was_said() -> None:
    said = ["mcp__my_diary__write", "mcp__my diary__today", "mcp__other__write", "today"]
    output = [*(function_call(name, "{}") for name in said), message("done")]
    async with running(diary()) as url, Caller(url) as caller:
        body = (await caller.post("/verify", ROW | {"response": response(output, model="m")})).body
    assert body["seen"] == ["write", "today", "mcp__other__write", "today"]
    assert [item["name"] for item in body["response"]["output"][:-1]] == said


async def test_a_server_that_does_not_expose_its_tools_has_no_such_route() -> None:
    async with running(Diary.app({}, name="closed")) as url, Caller(url) as caller:
        assert (await caller.post("/seed_session", ROW)).body == {}
        assert (await caller.post("/mcp", {})).status == 404


async def test_what_is_not_an_mcp_request_is_refused() -> None:
    async with running(diary()) as url, Caller(url) as caller:
        assert (await caller.post("/mcp", b"{")).status in (400, 406)
        assert (await caller.get("/mcp")).status in (400, 405, 406)


def test_a_token_is_of_one_process_and_one_session() -> None:
    assert read_token(b"key", sign_session(b"key", "s1")) == "s1"
    assert read_token(b"key", "") == ""
    with pytest.raises(RolloutError) as caught:
        read_token(b"other key", sign_session(b"key", "s1"))
    assert (caught.value.status, caught.value.kind) == (401, "lost_session")


@pytest.mark.parametrize(
    "request_", [None, object(), VerifyRequest.model_validate(ROW | {"response": {"output": [{}]}})]
)
def test_a_request_without_calls_is_left_as_it_is(request_: Any) -> None:
    before = copy.deepcopy(getattr(request_, "__dict__", None))
    take_prefixes_off(request_, "diary")
    assert getattr(request_, "__dict__", None) == before


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gym.server.mcp_endpoint", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    server = Diary(ResourcesConfig(name="diary", expose_tools_over_mcp=True), Settings(name="diary"))
    with pytest.raises(UserError, match="diary: expose_tools_over_mcp needs the package `mcp`") as caught:
        server.extend(FastAPI())
    assert caught.value.hint.startswith("pip install 'compose-gym[mcp]'")


class Page(BaseModel):
    title: str
    tags: list[str] = Field(default_factory=list, alias="labels")


class Library(ResourcesServer[None]):
    @tool
    async def page(self, title: str) -> Page:
        """A model."""
        return Page(title=title, labels=["a"])

    @tool
    async def count(self) -> int:
        """A number."""
        return 3

    @tool
    async def names(self) -> list[Page]:
        """A list of models."""
        return [Page(title="x")]

    @tool
    async def anything(self) -> Any:
        """Not typed."""
        return [1, "a"]

    @tool
    async def liar(self) -> int:
        """Says one thing and returns another."""
        return cast(int, "three")

    async def verify(self, rollout: VerifyRequest) -> float:
        return 1.0


@pytest.mark.parametrize("mode", MODES)
async def test_what_a_typed_tool_returns_is_structured_as_its_schema_says(mode: Mode) -> None:
    """The client itself refuses what does not fit the schema."""
    app = Library.app({"expose_tools_over_mcp": True}, name="library")
    async with running(app) as url, client_of(url, {}, mode) as client:
        schemas = {one.name: one.output_schema for one in (await client.list_tools()).tools}
        results = {name: await client.call_tool(name, {}) for name in ("count", "names", "anything", "liar")}
        page = await client.call_tool("page", {"title": "x"})
    assert schemas["anything"] is None
    assert (schemas["page"] or {})["properties"].keys() == {"title", "labels"}
    assert page.structured_content == {"title": "x", "labels": ["a"]}
    assert results["count"].structured_content == {"result": 3}
    assert results["names"].structured_content == {"result": [{"title": "x", "labels": []}]}
    assert results["anything"].structured_content is None
    assert text_of(results["anything"]) == '[1,"a"]'
    assert results["liar"].is_error
    assert "returned what its signature does not say" in text_of(results["liar"])


async def test_the_path_with_a_slash_is_the_same_one() -> None:
    """Behind a router a redirect would lead past its prefix."""
    accept = {"accept": "application/json, text/event-stream"}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with running(diary()) as url, httpx2.AsyncClient(follow_redirects=False, headers=accept) as http:
        replies = [await http.post(f"{url}{path}", json=asked) for path in ("/mcp", "/mcp/")]
        async with Client(streamable_http_client(f"{url}/mcp/", http_client=http)) as client:
            assert len((await client.list_tools()).tools) == 3
    assert replies[0].status_code == replies[1].status_code < 300, replies
    assert replies[0].content == replies[1].content

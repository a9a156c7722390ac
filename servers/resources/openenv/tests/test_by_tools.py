"""OpenEnv environments by tools, with the real package: those of an MCP server, and one that is the action."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from by_tools import OpenEnvTools
from lock.rules import secret_of

from gym.server.testing import Caller, running

pytest_plugins = ["real_environments"]
pytestmark = pytest.mark.asyncio
TURN = {"tools": "action", "action_tool": "turn_lock", "observation_field": "text", "unpaid_steps": "none"}


def row(**reset: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "x"}, "reset": reset}


@asynccontextmanager
async def serving(url: str, **fields: Any) -> AsyncIterator[Caller]:
    async with running(OpenEnvTools.app({"url": url, **fields}, name="openenv")) as at, Caller(at) as caller:
        yield caller


async def verify(caller: Caller) -> dict[str, Any]:
    body: dict[str, Any] = (await caller.post("/verify", {**row(), "response": {"output": []}})).body
    return body


async def test_the_tools_of_an_mcp_environment_are_listed_and_called(environments: str) -> None:
    async with serving(f"{environments}/tools") as caller:
        begun = (await caller.post("/seed_session", row())).body
        tools = {one["name"]: one["parameters"] for one in begun["tools"]}
        assert set(tools) == {"add", "fail"}
        assert tools["add"]["properties"]["number"]["type"] == "integer"
        assert (await caller.post("/add", {"number": 3})).body == b"The sum is 3."
        assert "no luck" in (await caller.post("/fail", {"why": "no luck"})).body["error"]
        assert "error" in (await caller.post("/add", {"number": "many"})).body
        assert (await caller.post("/add", {"number": 4})).body == b"The sum is 7."
        assert (await verify(caller))["reward"] == 1.0
        assert (await caller.get("/reverify_mode")).body == "unsupported"


async def test_sessions_have_a_tool_server_each(environments: str) -> None:
    async with serving(f"{environments}/tools") as one, Caller(one.url) as other:
        await one.post("/seed_session", row())
        await other.post("/seed_session", row())
        await one.post("/add", {"number": 5})
        assert (await other.post("/add", {"number": 1})).body == b"The sum is 1."


async def test_an_action_is_a_tool_with_its_schema(environments: str) -> None:
    async with serving(f"{environments}/lock", **TURN) as caller:
        begun = (await caller.post("/seed_session", row(seed=3))).body
        (tool,) = begun["tools"]
        assert (tool["name"], list(tool["parameters"]["properties"])) == ("turn_lock", ["digits"])
        assert begun["observation"][0]["content"].startswith("The lock has 3 digits")
        refused = (await caller.post("/turn_lock", {"digits": [9, 9, 9]})).body
        assert "less than or equal to 6" in refused["error"]
        opened = await caller.post("/turn_lock", {"digits": secret_of(3)})
        assert opened.body == b"It opens."
        found = await verify(caller)
        assert (found["reward"], found["num_calls"], found["terminated"]) == (1.0, 2, True)


async def test_an_action_over_which_the_environment_ends_the_session_ends_the_rollout(environments: str) -> None:
    async with serving(f"{environments}/odd", tools="action", observation_field="text") as caller:
        await caller.post("/seed_session", row())
        await caller.post("/act", {"word": "pay:half"})
        assert "hung up over it" in (await caller.post("/act", {"word": "forbidden"})).body["error"]
        assert (await verify(caller))["reward"] == 0.5


async def test_a_tool_that_brings_the_environment_down_is_a_failure(environments: str) -> None:
    async with serving(f"{environments}/odd", tools="action", observation_field="text") as caller:
        for word, wanted in (("raise:no power", False), ("end:nan", False), ("exit", True)):
            await caller.post("/seed_session", row())
            error = (await caller.post("/act", {"word": word})).body["error"]
            assert (error["kind"], error["retryable"]) == ("resources", wanted)


async def test_an_environment_without_tools_says_how_to_call_it(environments: str) -> None:
    async with serving(f"{environments}/lock") as caller:
        error = (await caller.post("/seed_session", row())).body["error"]
    assert (error["kind"], error["retryable"]) == ("resources", False)
    assert "say so: tools: action" in error["message"]

"""simple_agent between a real model server and a real resources server, all on sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from app import SimpleAgent

from gym.server import Model, ResourcesServer, VerifyRequest, tool
from gym.server.testing import Caller, running
from gym.wire.items import function_call, function_calls, message, response

pytestmark = pytest.mark.asyncio
ROW = {"responses_create_params": {"input": "double 21"}, "expected": 42, "odd": [None]}


class Doubling(ResourcesServer[None]):
    @tool
    async def double(self, number: int) -> int:
        return 2 * number

    async def verify(self, rollout: VerifyRequest) -> float:
        return float(rollout.last_text == "42")


class CallsOnce(Model):
    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        outputs = [item["output"] for item in params["input"] if item.get("type") == "function_call_output"]
        said = [message(outputs[-1])] if outputs else [function_call("double", '{"number": 21}')]
        return response(said, model="test")


@asynccontextmanager
async def agent(**fields: Any) -> AsyncIterator[Caller]:
    async with running(CallsOnce.app({}, name="policy")) as model, running(Doubling.app({}, name="doubling")) as env:
        document = {
            "policy": {"responses_api_models": {"any": _address(model)}},
            "doubling": {"resources_servers": {"any": _address(env)}},
        }
        references = {
            "model_server": {"type": "responses_api_models", "name": "policy"},
            "resources_server": {"type": "resources_servers", "name": "doubling"},
        }
        app = SimpleAgent.app(references | fields, name="agent", document=document)
        async with running(app) as url, Caller(url) as caller:
            yield caller


def _address(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {"host": parts.hostname, "port": parts.port}


async def test_a_row_comes_back_as_a_verified_rollout() -> None:
    async with agent() as caller:
        reply = await caller.post("/run", ROW)
    assert reply.status == 200, reply.body
    assert reply.body["reward"] == 1.0
    assert reply.body["odd"] == [None]
    output = reply.body["response"]["output"]
    assert [item["type"] for item in output] == ["function_call", "function_call_output", "message"]
    assert orjson.loads(output[1]["output"]) == 42


async def test_a_spent_budget_is_named_and_the_rollout_verified() -> None:
    async with agent(max_steps=1) as caller:
        reply = await caller.post("/run", ROW)
    assert reply.body["reward"] == 0.0
    assert reply.body["response"]["truncated_by"] == "max_steps"


async def test_the_loop_alone_seeds_and_verifies_nothing() -> None:
    async with agent() as caller:
        reply = await caller.post("/v1/responses", {"input": "double 21"})
    assert len(function_calls(reply.body["output"])) == 1
    assert "reward" not in reply.body

"""research_team: a lead, its colleagues and their models, all on sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from app import ResearchTeam

from gym.errors import UserError
from gym.server import Agent, AgentConfig, Model, ResourcesServer, ServerApp, VerifyRequest
from gym.server.testing import Caller, running
from gym.wire.discovery import Discovery, InstanceView, ReplicaView
from gym.wire.failures import RolloutError
from gym.wire.items import function_call, item_text, message, response

pytestmark = pytest.mark.asyncio
ROW = {"responses_create_params": {"input": "Which is it?", "tools": []}, "answer": "B"}


class Plain(Agent):
    config: AgentConfig


class Letters(ResourcesServer[None]):
    async def verify(self, rollout: VerifyRequest) -> float:
        return float(rollout.last_text == (rollout.model_extra or {})["answer"])


class LeadModel(Model):
    """Asks once, then answers with the output of its call."""

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        outputs = [item["output"] for item in params["input"] if item.get("type") == "function_call_output"]
        if outputs:
            return response([message(outputs[-1])], model="lead")
        assert [tool["name"] for tool in params["tools"]] == ["ask_expert"]
        return response([function_call("ask_expert", '{"task": "Is it A or B?"}', call_id="c1")], model="lead")


class ExpertModel(Model):
    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        asked = item_text(params["input"][-1])
        return response([message("B" if asked == "Is it A or B?" else "?")], model="expert")


@asynccontextmanager
async def team(
    *, lead: ServerApp | None = None, expert: ServerApp | None = None, agents: Any = None, **fields: Any
) -> AsyncIterator[Caller]:
    document: dict[str, Any] = {}
    async with AsyncExitStack() as stack:

        async def add(name: str, kind: str, app: ServerApp) -> None:
            parts = urlsplit(await stack.enter_async_context(running(app)))
            document[name] = {kind: {"any": {"host": parts.hostname, "port": parts.port}}}

        await add("policy", "responses_api_models", lead or LeadModel.app({}, name="policy"))
        await add("brain", "responses_api_models", expert or ExpertModel.app({}, name="brain"))
        await add("letters", "resources_servers", Letters.app({}, name="letters"))
        own = {"model_server": {"type": "responses_api_models", "name": "brain"}}
        await add("expert", "responses_api_agents", Plain.app(own, name="expert", document=dict(document)))
        references = {
            "model_server": {"type": "responses_api_models", "name": "policy"},
            "resources_server": {"type": "resources_servers", "name": "letters"},
            "agents": agents or {"ask_expert": {"type": "responses_api_agents", "name": "expert"}},
        }
        app = ResearchTeam.app(references, name="lead", document=document)
        url = await stack.enter_async_context(running(app))
        yield await stack.enter_async_context(Caller(url))


async def test_the_lead_answers_from_what_its_colleague_says() -> None:
    async with team() as caller:
        reply = (await caller.post("/run", ROW)).body
        assert reply["reward"] == 1.0
        kinds = [item["type"] for item in reply["response"]["output"]]
        assert kinds == ["function_call", "function_call_output", "message"]
        (call,) = reply["response"]["agent_calls"]
        assert (call["call_id"], call["tool"], call["agent"]) == ("c1", "ask_expert", "expert")
        assert item_text(call["response"]["output"][-1]) == "B"


async def test_a_colleague_whose_model_fails_is_a_failure_that_names_it() -> None:
    class Broken(Model):
        async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
            raise RolloutError("model", "out of order")

    async with team(expert=Broken.app({}, name="brain")) as caller:
        answered = await caller.post("/run", ROW)
        assert (answered.status, answered.body["error"]["kind"]) == (502, "model")
        assert answered.body["error"]["server"] == "brain"


async def test_a_colleague_that_was_asked_too_often_says_so() -> None:
    class Nags(Model):
        async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
            outputs = [item["output"] for item in params["input"] if item.get("type") == "function_call_output"]
            if len(outputs) == 2:
                return response([message(outputs[-1])], model="lead")
            return response(
                [function_call("ask_expert", '{"task": "again"}', call_id=f"c{len(outputs)}")], model="lead"
            )

    agents = {"ask_expert": {"name": "expert", "max_calls": 1}}
    async with team(lead=Nags.app({}, name="policy"), agents=agents) as caller:
        reply = (await caller.post("/run", ROW)).body
        assert "asked 1 times" in item_text(reply["response"]["output"][-1])
        assert len(reply["response"]["agent_calls"]) == 1


async def test_a_team_of_one_does_not_start() -> None:
    with pytest.raises(UserError, match="team of one"):
        await ResearchTeam.app({}, name="lead").start()


async def test_agents_that_ask_one_another_in_a_circle_are_stopped(tmp_path: Path) -> None:
    class Asks(Model):
        async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
            return response([function_call("ask_self", orjson.dumps({"task": "you do it"}).decode())], model="m")

    discovery = tmp_path / "discovery.json"
    async with running(Asks.app({}, name="policy")) as model:
        document = {"policy": {"responses_api_models": {"any": _address(model)}}, "lead": {}}
        fields = {"model_server": {"name": "policy"}, "agents": {"ask_self": {"name": "lead"}}}
        app = ResearchTeam.app(fields, name="lead", document=document, discovery=str(discovery))
        async with running(app) as url, Caller(url) as one:
            view = InstanceView(
                type="responses_api_agents", implementation="any", replicas=(ReplicaView(id="l-1", url=url),)
            )
            discovery.write_text(Discovery(stack="s", instances={"lead": view}).model_dump_json())
            answered = await one.post("/v1/responses", {"input": "go"})
            assert answered.body["error"]["kind"] == "agent"
            assert "circle" in answered.body["error"]["message"]


def _address(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {"host": parts.hostname, "port": parts.port}

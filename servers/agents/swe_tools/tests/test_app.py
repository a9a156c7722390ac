"""The loop, with a model and an environment on sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from app import TOOLS, SweTools, plain, shorten

from gym.server import Model, ResourcesServer, VerifyRequest, tool
from gym.server.testing import Caller, running
from gym.server.testing.plays import wiring
from gym.wire import items

pytestmark = pytest.mark.asyncio
ROW = {"responses_create_params": {"input": []}, "problem_statement": "It is broken."}
Script = Sequence[tuple[str, dict[str, Any]] | str]


class Environment(ResourcesServer[list[str]]):
    async def seed(self, row: Any) -> list[str]:
        return []

    @tool
    async def bash(self, state: list[str], command: str) -> str:
        """Run it."""
        state.append(command)
        return "x" * 1000 if command == "much" else f"ran {command}"

    async def verify(self, rollout: VerifyRequest, state: list[str]) -> dict[str, Any]:
        return {"reward": 1.0, "ran": state}


class Scripted(Model):
    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        self.settings.document["asked"].append(params)
        step = self.settings.document["script"].pop(0)
        if isinstance(step, str):
            return items.response([items.message(step)], model="test")
        return items.response([items.function_call(step[0], json.dumps(step[1]))], model="test")


@asynccontextmanager
async def agent(script: Script, **fields: Any) -> AsyncIterator[tuple[Caller, list[dict[str, Any]]]]:
    asked: list[dict[str, Any]] = []
    settings = {"script": list(script), "asked": asked}
    policy, env = Scripted.app({}, name="policy", document=settings), Environment.app({}, name="env")
    async with running(policy) as model, running(env) as env_url:
        references, document = wiring(model, env_url)
        app = SweTools.app(references | fields, name="agent", document=document)
        async with running(app) as url, Caller(url) as caller:
            yield caller, asked


async def test_it_works_until_it_submits() -> None:
    script: Script = [("bash", {"command": "ls"}), ("submit", {}), ("bash", {"command": "never"})]
    async with agent(script) as (caller, asked):
        reply = await caller.post("/run", ROW)
    assert (reply.status, reply.body["ran"], reply.body["response"]["submitted"]) == (200, ["ls"], True)
    outputs = [one["output"] for one in reply.body["response"]["output"] if one["type"] == "function_call_output"]
    assert outputs == ["ran ls", "Handed in."]
    assert [one["name"] for one in asked[0]["tools"]] == ["bash", "view", "edit", "start_job", "read_job", "submit"]
    assert [items.item_text(one) for one in asked[0]["input"]][1] == "It is broken."


async def test_who_only_talks_is_asked_to_go_on_a_few_times() -> None:
    async with agent(["Hm."] * 4, max_nudges=2) as (caller, asked):
        reply = await caller.post("/run", ROW)
    assert (reply.body["reward"], reply.body["response"]["submitted"]) == (1.0, False)
    assert len(asked) == 3


async def test_long_output_is_cut_with_a_note_for_the_model() -> None:
    async with agent([("bash", {"command": "much"}), ("submit", {})], max_output=200) as (caller, asked):
        await caller.post("/run", ROW)
    assert "800 characters are left out here" in asked[1]["input"][-1]["output"]


async def test_a_spent_budget_is_named_and_verified() -> None:
    async with agent([("bash", {"command": "ls"})] * 9, max_steps=2) as (caller, _):
        reply = await caller.post("/run", ROW)
    assert (reply.body["response"]["truncated_by"], reply.body["ran"]) == ("max_steps", ["ls", "ls"])


@pytest.mark.parametrize(("text", "read"), [('"a\\nb"', "a\nb"), ('{"a": 1}', '{"a": 1}'), ("plain", "plain")])
async def test_a_text_in_json_is_shown_as_the_text(text: str, read: str) -> None:
    assert plain(text) == read
    assert shorten(read, 1000) == read


async def test_the_tools_are_the_environments() -> None:
    here = Path(__file__).parents[1]
    theirs = here.parents[1] / "resources" / "swe" / "data" / "tools.json"
    own = json.loads((here / "tools.json").read_text())
    assert own[:3] == json.loads(theirs.read_text())
    assert tuple(one["name"] for one in own) == TOOLS

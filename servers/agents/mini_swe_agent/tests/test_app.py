"""The real package between a model and an environment on sockets."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from app import MiniSweAgent
from package import to_items

from gym.server import Model, ResourcesServer, VerifyRequest, tool
from gym.server.testing import Caller, running
from gym.server.testing.plays import wiring
from gym.wire import items
from gym.wire.failures import RolloutError

pytestmark = pytest.mark.asyncio
packaged = pytest.mark.skipif(importlib.util.find_spec("minisweagent") is None, reason="its requirements bring it")
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
ROW = {"responses_create_params": {"input": [], "temperature": 0.0}, "problem_statement": "It is broken.", "patch": "p"}


class Environment(ResourcesServer[list[str]]):
    async def seed(self, row: Any) -> list[str]:
        return []

    @tool
    async def run_command(self, state: list[str], command: str, timeout: float | None = None) -> dict[str, Any]:
        state.append(command)
        text = f"{SUBMIT}\nthe patch\n" if command == "submit" else f"ran {command}\n"
        return {"output": text, "returncode": 0, "exception_info": ""}

    async def verify(self, rollout: VerifyRequest, state: list[str] | None) -> dict[str, Any]:
        return {"reward": 1.0, "ran": state}


class Scripted(Model):
    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        self.settings.document["asked"].append(params)
        step = self.settings.document["script"].pop(0)
        if step is None:
            raise RolloutError("model", "out of order", retryable=True)
        if step == "talk":
            return items.response([items.message("Hm.")], model="test")
        call = items.function_call("bash", json.dumps({"command": step}))
        call |= {"generation_token_ids": [1], "prompt_token_ids": [2], "generation_log_probs": [-0.1]}
        return items.response([call], model="test", usage=items.text_usage(3, 4))


@asynccontextmanager
async def agent(script: Sequence[str | None], **fields: Any) -> AsyncIterator[tuple[Caller, list[dict[str, Any]]]]:
    asked: list[dict[str, Any]] = []
    settings = {"script": list(script), "asked": asked}
    policy, env = Scripted.app({}, name="policy", document=settings), Environment.app({}, name="env")
    async with running(policy) as model, running(env) as env_url:
        references, document = wiring(model, env_url)
        app = MiniSweAgent.app(references | fields, name="agent", document=document)
        async with running(app) as url, Caller(url) as caller:
            yield caller, asked


@packaged
async def test_it_types_until_it_submits_and_the_items_are_kept() -> None:
    async with agent(["ls", "submit"]) as (caller, asked):
        reply = await caller.post("/run", ROW)
    assert reply.status == 200, reply.body
    assert (reply.body["reward"], reply.body["ran"]) == (1.0, ["ls", "submit"])
    given = reply.body["responses_create_params"]["input"]
    assert [one["role"] for one in given] == ["system", "user"]
    assert "It is broken." in given[1]["content"]
    output = reply.body["response"]["output"]
    assert [one["type"] for one in output] == ["function_call", "function_call_output", "function_call"]
    assert [one["generation_token_ids"] for one in output if one["type"] == "function_call"] == [[1], [1]]
    assert "ran ls" in output[1]["output"]
    assert reply.body["response"]["usage"]["total_tokens"] == 14
    assert reply.body["mini_swe_agent"]["exit_status"] == "Submitted"
    assert asked[0]["temperature"] == 0.0
    assert [one["name"] for one in asked[0]["tools"]] == ["bash"]


@packaged
async def test_a_model_that_fails_fails_the_rollout() -> None:
    async with agent(["ls", None]) as (caller, _):
        reply = await caller.post("/run", ROW)
    assert reply.status >= 500
    assert reply.body["error"]["kind"] == "model"


@packaged
async def test_a_model_that_only_talks_gets_a_format_error_and_ends() -> None:
    async with agent(["talk", "talk", "talk"], collapse_limit=2) as (caller, asked):
        reply = await caller.post("/run", ROW)
    assert reply.body["response"]["truncated_by"] == "RepeatedFormatError"
    assert len(asked) == 2
    assert "No tool calls" in json.dumps(asked[1]["input"][-1])


@packaged
async def test_the_submission_may_be_graded_instead() -> None:
    async with agent(["submit"], grade="submission") as (caller, _):
        reply = await caller.post("/run", ROW)
    assert reply.body["model_patch"] == "the patch\n"


@packaged
async def test_a_row_without_a_problem_is_refused() -> None:
    async with agent([]) as (caller, _):
        reply = await caller.post("/run", {"responses_create_params": {"input": []}})
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")


@packaged
async def test_gold_needs_no_model() -> None:
    async with agent([], run_golden=True) as (caller, _):
        reply = await caller.post("/run", ROW)
        bare = await caller.post("/run", {**ROW, "patch": ""})
    assert (reply.body["reward"], reply.body["model_patch"]) == (1.0, "p")
    assert bare.status == 422


async def test_notes_of_the_package_are_not_items() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "a", "extra": {"x": 1}},
        {"object": "response", "output": [{"type": "message"}], "extra": {}},
        {"role": "exit", "content": "", "extra": {}},
    ]
    assert to_items(messages) == [{"role": "user", "content": "a"}, {"type": "message"}]

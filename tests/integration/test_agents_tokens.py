"""Agents that talk with other models and agents, on a provider that gives token ids: whose tokens are where."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from gym.testing import GymStack
from gym.wire import items
from tests.support.cli import gym
from tests.support.fake_openai import Body, FakeOpenAI, fake_openai

pytestmark = pytest.mark.asyncio(loop_scope="module")
STACK = """
policy_model:
  responses_api_models:
    openai: {entrypoint: app.py, openai_base_url: URL, openai_model: policy, upstream_api: chat}
user_model:
  responses_api_models:
    openai: {entrypoint: app.py, openai_base_url: URL, openai_model: user, upstream_api: chat}
talk_agent:
  responses_api_agents:
    user_sim_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: mcqa}
      model_server: {type: responses_api_models, name: policy_model}
      user_model_server: {type: responses_api_models, name: user_model}
"""
QUESTION = {"options": [{"A": "Mercury"}, {"B": "Mars"}], "expected_answer": "A"}
TEAM = {**QUESTION, "responses_create_params": {"input": "Which planet is nearest to the sun?"}}
TALK = {**QUESTION, "responses_create_params": {"input": []}, "user": {"goal": "to learn which planet is nearest"}}


def answer(body: Body) -> list[items.Item]:
    """A user who asks, doubts once and is content; a lead that asks two other agents; agents that know."""
    turns = len(body["input"])  # tool outputs are not among them
    if body["model"] == "user":
        return [items.message(("Which one is it?", "Are you sure?", "Thanks. ###STOP###")[turns // 2])]
    tools = [tool["function"]["name"] for tool in body.get("tools") or ()]
    if tools and not any(one["role"] == "assistant" for one in body["input"]):
        return [items.message("I ask."), *(items.function_call(name, '{"task": "Is it A?"}') for name in tools)]
    return [items.message("It is \\boxed{A}")]


@dataclass
class Stack:
    folder: Path
    provider: FakeOpenAI

    async def collect(self, agent: str, row: Body) -> Body:
        """Its one rollout: the row names no agent, the command does."""
        (self.folder / f"{agent}.jsonl").write_bytes(orjson.dumps(row) + b"\n")
        words = ("rollouts", agent, "--input", f"{agent}.jsonl", "-o", f"{agent}_out.jsonl", "--max-attempts", "1")
        done = await asyncio.to_thread(gym, *words, cwd=self.folder)
        assert done.returncode == 0, done.stdout + done.stderr
        (line,) = (self.folder / f"{agent}_out.jsonl").read_bytes().splitlines()
        rollout: Body = orjson.loads(line)
        assert (rollout["reward"], rollout["agent_ref"]["name"]) == (1.0, agent)
        return rollout


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    folder = tmp_path_factory.mktemp("tokens")
    async with fake_openai(answer=answer, token_ids=True) as provider:
        (folder / "mine.yaml").write_text(STACK.replace("URL", provider.url))
        async with GymStack("research_team", model=None, runtime="local").with_config(folder / "mine.yaml") as up:
            yield Stack(up.folder, provider)


def ids(item: Any) -> list[int]:
    """Those that the model made for an item; none where it is another's."""
    held: list[int] = item.get("generation_token_ids") or []
    assert len(item.get("generation_log_probs") or []) == len(held)
    assert bool(item.get("prompt_token_ids")) == bool(held)
    return held


async def test_of_a_talk_the_policys_tokens_are_kept_and_the_users_are_none_to_train_on(stack: Stack) -> None:
    rollout = await stack.collect("talk_agent", TALK)
    response = rollout["response"]
    roles = [item["role"] for item in response["output"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert [bool(ids(item)) for item in response["output"]] == [role == "assistant" for role in roles]
    simulation = response["user_simulation"]
    assert (simulation["turns"], simulation["ended_by"]) == (3, "user")
    assert (response["usage"]["total_tokens"], simulation["user_usage"]["total_tokens"]) == (2 * 12, 3 * 12)
    assert rollout["_gym"]["tokens"] == {"input": 2 * 7, "output": 2 * 5}
    assert (rollout["_gym"]["model"], set(rollout["_gym"]["hops"]) - {"seed"}) == ("policy", {"model", "verify"})


async def test_of_a_team_each_members_tokens_are_with_what_it_did(stack: Stack) -> None:
    rollout = await stack.collect("research_team", TEAM)
    response = rollout["response"]
    kinds = [item["type"] for item in response["output"]]
    assert kinds == ["message", *["function_call"] * 2, *["function_call_output"] * 2, "message"]
    assert [bool(ids(item)) for item in response["output"]] == [False, False, True, False, False, True]
    assert [call["agent"] for call in response["agent_calls"]] == ["team_researcher", "team_critic"]
    for call in response["agent_calls"]:
        (said,) = call["response"]["output"]
        assert ids(said)
        assert call["response"]["usage"]["total_tokens"] == 12
    assert response["usage"]["total_tokens"] == 2 * 12
    assert rollout["_gym"]["tokens"] == {"input": 2 * 7, "output": 2 * 5}
    assert set(rollout["_gym"]["hops"]) - {"seed"} == {"model", "agents", "verify"}

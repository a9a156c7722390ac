"""play_agent between a model server and an environment that plays by itself, all on sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from app import PlayAgent

from gym.server import Model
from gym.server.adapters.play_verdict import PlayVerdict
from gym.server.adapters.played_environment import PLAY_PATH, PlayAccess, PlayedEnvironment, PlayRow
from gym.server.testing import Caller, running
from gym.server.testing.plays import wiring
from gym.server.tools import NAME
from gym.wire.failures import RolloutError
from gym.wire.items import item_text, message, response

pytestmark = pytest.mark.asyncio
ROW = {"responses_create_params": {"input": "hello", "temperature": 0.5}, "odd": [None]}


class Speaks(Model):
    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        asked = item_text(params["input"][-1])
        if asked == "break":
            raise RolloutError("model", "out of order")
        count = len(params["input"])
        ids = {"prompt_token_ids": [*range(count)], "generation_token_ids": [count], "generation_log_probs": [-1.0]}
        said = message(f"{asked}!") | ids
        return response([said], model="test", usage={"total_tokens": 7})


class Row(PlayRow):
    turns: int = 1
    ask: str = "hello"
    reward: Any = 1.0


class Talks(PlayedEnvironment):
    """Says what the policy has said last, so many times, and swallows what goes wrong on the way."""

    play_row = Row

    async def play(self, row: Row, model: PlayAccess) -> PlayVerdict:
        asked: list[Any] = [{"role": "user", "content": row.ask}]
        async with openai.AsyncOpenAI(base_url=model.base_url, api_key=model.key) as client:
            for _ in range(row.turns):
                try:
                    said = await client.chat.completions.create(model=model.model, messages=asked)
                except openai.APIStatusError:
                    return PlayVerdict(0.0)
                asked.append({"role": "assistant", "content": said.choices[0].message.content})
                asked.append({"role": "user", "content": "again"})
        if row.reward == "raise":
            raise ZeroDivisionError("boom")
        return PlayVerdict(row.reward, {"turns_allowed": model.max_steps})


@asynccontextmanager
async def stack(**fields: Any) -> AsyncIterator[tuple[Caller, Caller]]:
    """Callers of the agent, and of the environment."""
    talks, policy = Talks.app({}, name="env"), Speaks.app({}, name="policy")
    async with running(policy) as model, running(talks) as env:
        references, document = wiring(model, env)
        app = PlayAgent.app(references | fields, name="agent", document=document)
        async with running(app) as url, Caller(url) as caller, Caller(env) as environment:
            yield caller, environment


async def test_the_environment_plays_with_the_policy_and_its_verdict_is_the_rollouts() -> None:
    async with stack(max_steps=9) as (caller, _):
        reply = await caller.post("/run", {**ROW, "turns": 2})
    assert reply.status == 200, reply.body
    body = reply.body
    assert (body["reward"], body["turns_allowed"], body["odd"]) == (1.0, 9, [None])
    assert [item_text(one) for one in body["response"]["output"]] == ["hello!", "again", "again!"]
    assert body["response"]["output"][-1]["generation_token_ids"] == [3]
    assert body["response"]["usage"]["total_tokens"] == 14
    assert body["responses_create_params"]["temperature"] == 0.5
    assert "play" not in body


async def test_a_model_that_fails_is_a_failure_whatever_the_library_makes_of_it() -> None:
    async with stack() as (caller, _):
        reply = await caller.post("/run", {**ROW, "ask": "break"})
    assert (reply.status, reply.body["error"]["kind"]) == (502, "model")


@pytest.mark.parametrize("reward", ["raise", "much", None, [1]])
async def test_what_the_environment_does_wrong_is_its_failure(reward: Any) -> None:
    async with stack() as (caller, _):
        reply = await caller.post("/run", {**ROW, "reward": reward})
    assert reply.status == 500
    assert (reply.body["error"]["kind"], reply.body["error"]["retryable"]) == ("resources", False)


async def test_a_play_that_asked_nothing_is_a_failure() -> None:
    async with stack() as (caller, _):
        reply = await caller.post("/run", {**ROW, "turns": 0})
    assert reply.body["error"]["kind"] == "agent"


async def test_a_budget_ends_the_play_and_an_environment_that_cannot_judge_it_pays_nothing() -> None:
    async with stack(max_steps=2) as (caller, environment):
        body = (await caller.post("/run", {**ROW, "turns": 5})).body
        whole = await environment.post("/verify", {**ROW, "response": {"output": []}})
    assert (body["reward"], body["response"]["truncated_by"]) == (0.0, "max_steps")
    assert "max_steps" in body["reason"]
    assert (whole.status, whole.body["error"]["kind"]) == (500, "resources")
    assert "play_agent" in whole.body["error"]["message"]


async def test_it_answers_rows_alone_and_a_model_cannot_call_the_play_as_a_tool() -> None:
    async with stack() as (caller, _):
        reply = await caller.post("/v1/responses", {"input": "hello"})
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")
    assert not NAME.fullmatch(PLAY_PATH.removeprefix("/"))

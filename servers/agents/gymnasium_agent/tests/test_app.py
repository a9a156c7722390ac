"""gymnasium_agent between a real model server and real environments of turns, all on sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from app import GymnasiumAgent

from gym.server import Model, Row
from gym.server.gymnasium import Action, GymnasiumServer, Observation, Step
from gym.server.testing import Caller, running
from gym.server.testing.plays import wiring
from gym.wire.items import function_call, item_text, message, response

pytestmark = pytest.mark.asyncio
ROW = {"responses_create_params": {"input": "count"}, "target": 3, "odd": [None]}


class Target(Row):
    target: int


class Counting(GymnasiumServer[list[int]]):
    """Says how far one has come; 0.5 a step, done at the target. A call is answered as a tool."""

    left: list[list[int]]

    async def start(self) -> None:
        self.left = []

    async def reset(self, row: Target) -> tuple[list[int], Observation]:
        return [0, row.target], "begin"

    async def step(self, action: Action, state: list[int]) -> Step:
        if state[1] < 0:
            raise RuntimeError("broken environment")
        state[0] += 1
        outputs = tuple({"call_id": call["call_id"], "output": "ok"} for call in action.function_calls)
        return Step(f"at {state[0]}", 0.5, terminated=state[0] == state[1], tool_outputs=outputs)

    async def leave(self, state: list[int]) -> None:
        self.left.append(state)


class Speaks(Model):
    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        said = [item_text(item) for item in params["input"]]
        if said[-1] == "at 1":
            return response([function_call("go", "{}", call_id="c1")], model="test")
        return response([message(f"I heard {said[-1]}")], model="test", usage={"total_tokens": 7})


@asynccontextmanager
async def agent(**fields: Any) -> AsyncIterator[tuple[Caller, Counting]]:
    counting = Counting.app({}, name="env")
    async with running(Speaks.app({}, name="policy")) as model, running(counting) as env:
        references, document = wiring(model, env)
        app = GymnasiumAgent.app(references | fields, name="agent", document=document)
        async with running(app) as url, Caller(url) as caller:
            assert isinstance(counting.server, Counting)
            yield caller, counting.server


async def test_an_episode_is_played_to_its_end_and_its_rewards_are_summed() -> None:
    async with agent() as (caller, env):
        reply = (await caller.post("/run", ROW)).body
        assert (reply["reward"], reply["step_rewards"]) == (1.5, [0.5, 0.5, 0.5])
        assert (reply["terminated"], reply["truncated"], reply["odd"]) == (True, False, [None])
        kinds = [item.get("role") or item["type"] for item in reply["response"]["output"]]
        assert kinds == [
            "user",
            "assistant",
            "user",
            "function_call",
            "function_call_output",
            "user",
            "assistant",
            "user",
        ]
        assert reply["response"]["usage"]["total_tokens"] == 14
        assert env.left == [[3, 3]]


async def test_a_talk_that_takes_too_long_is_cut_and_its_episode_closed() -> None:
    async with agent(max_steps=2) as (caller, env):
        reply = (await caller.post("/run", ROW)).body
        assert (reply["reward"], reply["truncated"], reply["response"]["truncated_by"]) == (1.0, True, "max_steps")
    assert env.left == [[2, 3]]


async def test_an_environment_that_breaks_is_a_failure_and_its_episode_is_closed() -> None:
    async with agent() as (caller, env):
        answered = await caller.post("/run", {**ROW, "target": -1})
        assert (answered.status, answered.body["error"]["kind"]) == (500, "resources")
        assert "broken environment" in answered.body["error"]["message"]
    assert env.left == [[0, -1]]


async def test_a_row_of_the_wrong_shape_is_the_rows_fault() -> None:
    async with agent() as (caller, _):
        answered = await caller.post("/run", {**ROW, "target": "far"})
        assert (answered.status, answered.body["error"]["kind"]) == (422, "row")
        assert "target" in answered.body["error"]["message"]


async def test_what_was_played_verifies_to_the_same_reward() -> None:
    async with agent() as (caller, env):
        reply = (await caller.post("/run", ROW)).body
        async with running(Counting.app({}, name="env")) as url, Caller(url) as again:
            assert (await again.post("/verify", reply)).body["reward"] == reply["reward"]

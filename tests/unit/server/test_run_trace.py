"""`/run` with `return_trace`: every model call of the rollout below `trace`, and nothing left of it afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson

from gym.server import Agent, Model, RolloutClient
from gym.server.base import ServerApp
from gym.wire import items
from gym.wire.failures import RolloutError
from tests.support.peers import calls, says, team

Json = dict[str, Any]
TOKENS = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.1]}


class Player(Model):
    """Adds three, then says so; every item has its token ids."""

    async def respond(self, params: Json) -> Json:
        asked = items.input_items(params.get("input"))
        adds = not any(item.get("type") == "function_call_output" for item in asked)
        reply = calls(("add", '{"count": 3}')) if adds else says("three")
        return {**reply, "output": [item | TOKENS for item in reply["output"]]}


def nothing_said(body: Json, turn: int) -> Json:
    raise AssertionError("not asked")


def store_of(app: ServerApp) -> Any:
    server: Any = app.server
    return server.capture.store


async def emptied(store: Any) -> None:
    """Agents drop a trace after their reply."""
    async with asyncio.timeout(60):
        while len(store):
            await asyncio.sleep(0.01)


async def test_the_reply_of_a_run_has_its_model_calls_below_trace() -> None:
    app = Player.app({}, name="policy_model")
    async with team(nothing_said, model=app) as one:
        status, rollout = await one.run(return_trace=True, trace="of the row")
        await emptied(store_of(app))
    assert status == 200
    assert (rollout["reward"], rollout["return_trace"]) == (1.0, True)
    trace = rollout["trace"]
    assert (trace["complete"], trace["model_server"]) == (True, "policy_model")
    assert [one["index"] for one in trace["calls"]] == [0, 1]
    assert [one["generation_token_ids"] for one in trace["calls"]] == [[2], [2]]
    assert [len(one["request"]["input"]) for one in trace["calls"]] == [1, 3]
    assert trace["calls"][1]["reply"]["output"] == rollout["response"]["output"][-1:]


async def test_no_caller_gets_a_trace_without_asking() -> None:
    app = Player.app({}, name="policy_model")
    async with team(nothing_said, model=app) as one:
        for asked in ({}, {"return_trace": False}, {"return_trace": None}):
            status, rollout = await one.run(**asked)
            assert (status, "trace" in rollout) == (200, False)
        assert len(store_of(app)) == 0


async def test_the_agents_config_asks_for_every_row_that_says_nothing() -> None:
    async with team(nothing_said, model=Player.app({}, name="policy_model"), return_trace=True) as one:
        _, asked = await one.run()
        _, declined = await one.run(return_trace=False)
    assert len(asked["trace"]["calls"]) == 2
    assert "trace" not in declined


async def test_the_same_row_at_the_same_time_has_traces_of_its_own() -> None:
    async with team(nothing_said, model=Player.app({}, name="policy_model"), return_trace=True) as one:

        async def run() -> str:
            _, rollout = await one.run(_ng_task_index=1, _ng_rollout_index=1)
            assert len(rollout["trace"]["calls"]) == 2
            return str(rollout["trace"]["session_id"])

        first, second = await run(), await run()
    assert first != second
    assert len(first) > 30


async def test_a_wish_that_is_none_is_the_rows_fault() -> None:
    async with team(nothing_said, model=Player.app({}, name="policy_model")) as one:
        status, body = await one.run(return_trace="yes")
    assert (status, body["error"]["kind"]) == (422, "row")
    assert "true or false" in body["error"]["message"]


async def test_a_model_server_without_capture_is_named() -> None:
    async with team(nothing_said) as one:
        status, body = await one.run(return_trace=True)
    assert (status, body["error"]["kind"], body["error"]["retryable"]) == (500, "agent", False)
    assert "policy_model records no calls" in body["error"]["message"]


def losing(lose: Callable[[Any], None], app: ServerApp) -> type[Agent]:
    class Losing(Agent):
        """Between its last model call and its reply something happens to the trace."""

        async def respond(self, params: Any, rollout: RolloutClient) -> Json:
            response = await super().respond(params, rollout)
            lose(store_of(app))
            return response

    return Losing


async def failed_with(lose: Callable[[Any], None]) -> tuple[int, Json]:
    app = Player.app({}, name="policy_model")
    async with team(nothing_said, model=app, agent=losing(lose, app)) as one:
        status, body = await one.run(return_trace=True)
    return status, body["error"]


async def test_a_lost_trace_is_a_failure_and_never_a_reward() -> None:
    def drop(store: Any) -> None:
        for session_id in list(store._traces):
            store.drop(session_id)

    def drop_the_first_call(store: Any) -> None:
        for trace in store._traces.values():
            del trace.calls[0]

    status, error = await failed_with(drop)
    assert (status, error["kind"], error["retryable"]) == (503, "lost_session", True)
    status, error = await failed_with(drop_the_first_call)
    assert (status, error["kind"], error["retryable"]) == (503, "lost_session", True)
    assert "1 of 2 model calls" in error["message"]


async def test_what_the_policy_made_too_long_is_a_reward_with_a_cut_trace() -> None:
    app = Player.app({"capture": {"max_session_bytes": 2000}}, name="policy_model")
    async with team(nothing_said, model=app) as one:
        status, rollout = await one.run(return_trace=True)
    assert (status, rollout["reward"]) == (200, 1.0)
    assert (rollout["trace"]["complete"], rollout["trace"]["not_recorded"]) == (False, 1)
    assert len(rollout["trace"]["calls"]) == 1


async def test_a_rollout_that_fails_leaves_no_trace_behind() -> None:
    class Breaking(Agent):
        async def respond(self, params: Any, rollout: RolloutClient) -> Json:
            await super().respond(params, rollout)
            raise RolloutError("agent", "broken", retryable=False)

    app = Player.app({}, name="policy_model")
    async with team(nothing_said, model=app, agent=Breaking) as one:
        status, body = await one.run(return_trace=True)
        assert (status, body["error"]["message"]) == (500, "broken")
        await emptied(store_of(app))


async def test_a_rollout_that_asks_no_model_has_an_empty_trace() -> None:
    class Silent(Agent):
        async def respond(self, params: Any, rollout: RolloutClient) -> Json:
            return says("three")

    async with team(nothing_said, model=Player.app({}, name="policy_model"), agent=Silent) as one:
        _, rollout = await one.run(return_trace=True)
    assert (rollout["reward"], rollout["trace"]["calls"], rollout["trace"]["complete"]) == (0.0, [], True)


async def test_integers_of_any_size_survive() -> None:
    number = 2**70
    body = b'{"responses_create_params":{"input":"count"},"expected_count":3,"odd":%d}' % number
    async with team(nothing_said, model=Player.app({}, name="policy_model"), return_trace=True) as one:
        reply = (await one.post("/run", body)).body
    assert orjson.loads(reply)["reward"] == 1.0
    assert str(number).encode() in reply

"""The agent's loop and its contract, over real sockets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from gym.server import Agent, RolloutClient
from gym.server.asgi import Answer
from gym.wire import items
from tests.support.peers import calls, says, team

Json = dict[str, Any]


async def test_a_rollout_is_seeded_played_and_verified() -> None:
    def policy(body: Json, turn: int) -> Json:
        return calls(("add", '{"count": 1}'), ("add", '{"count": 2}')) if turn == 1 else says("three")

    async with team(policy) as one:
        status, rollout = await one.run(odd={"kept": [1, None]})
    assert status == 200
    assert rollout["reward"] == 1.0
    assert rollout["odd"] == {"kept": [1, None]}
    kinds = [item["type"] for item in rollout["response"]["output"]]
    assert kinds == ["function_call", "function_call", "function_call_output", "function_call_output", "message"]
    assert rollout["response"]["usage"]["total_tokens"] == 30
    assert orjson.loads(rollout["response"]["output"][3]["output"]) == {"count": 3}


async def test_the_model_is_asked_again_with_everything_so_far_and_its_own_cookies() -> None:
    def policy(body: Json, turn: int) -> Json:
        return calls(("add", '{"count": 3}')) if turn == 1 else says()

    async with team(policy) as one:
        await one.run(responses_create_params={"input": "count", "temperature": 0.5, "tools": []})
        first, second = one.asked.bodies
    assert [item["role"] for item in first["input"]] == ["user"]
    assert [item.get("type") for item in second["input"]] == ["message", "function_call", "function_call_output"]
    assert second["temperature"] == 0.5
    assert one.asked.cookies == [{}, {"kv": "7"}]


async def test_reasoning_alone_is_asked_again_but_not_for_ever() -> None:
    def thinks(body: Json, turn: int) -> Json:
        return items.response([items.reasoning("hm")], model="m")

    async with team(thinks) as one:
        status, rollout = await one.run()
    assert status == 200
    assert len(one.asked.bodies) == 3
    assert rollout["response"]["truncated_by"] == "idle_steps"


async def test_an_incomplete_answer_ends_the_loop() -> None:
    def cut(body: Json, turn: int) -> Json:
        return {**calls(("add", '{"count": 3}')), "incomplete_details": {"reason": "max_output_tokens"}}

    async with team(cut) as one:
        _, rollout = await one.run()
    assert len(one.asked.bodies) == 1
    assert rollout["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert rollout["reward"] == 0.0


@pytest.mark.parametrize(
    ("fields", "spent", "asked"),
    [
        ({"max_steps": 2}, "max_steps", 2),
        ({"max_tool_calls": 3}, "max_tool_calls", 4),
        ({"max_total_tokens": 45}, "max_total_tokens", 3),
    ],
)
async def test_a_spent_budget_ends_a_rollout_that_is_still_verified(fields: Json, spent: str, asked: int) -> None:
    async with team(lambda body, turn: calls(("add", '{"count": 1}')), **fields) as one:
        status, rollout = await one.run(expected_count=min(asked, 3))
    assert status == 200
    assert rollout["response"]["truncated_by"] == spent
    assert len(one.asked.bodies) == asked
    assert rollout["reward"] == 1.0


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("add", "{not json", "Invalid tool call arguments"),
        ("verify", "{}", "no tool named"),
        ("seed_session", "{}", "no tool named"),
        ("../run", "{}", "no tool named"),
        ("v1/responses", "{}", "no tool named"),
        ("../verify", "{}", "no tool named"),
        ("%2e%2e/verify", "{}", "no tool named"),
        ("%76erify", "{}", "no tool named"),
        ("add%2f..%2fverify", "{}", "no tool named"),
        ("\uff56erify", "{}", "no tool named"),
        ("verify\u200b", "{}", "no tool named"),
        ("verify\0", "{}", "no tool named"),
        ("verify?x=1", "{}", "no tool named"),
        ("verify#", "{}", "no tool named"),
        ("verify/", "{}", "no tool named"),
        ("close_session", "{}", "no tool named"),
        ("Verify", "{}", "Not Found"),
        ("add", '{"count": "many"}', "int_parsing"),
        ("unknown_tool", "{}", "Not Found"),
        ("explode", "{}", "ZeroDivisionError: boom"),
    ],
)
async def test_the_model_gets_its_own_mistake_as_output(name: str, arguments: str, message: str) -> None:
    def policy(body: Json, turn: int) -> Json:
        return calls((name, arguments)) if turn == 1 else says()

    async with team(policy) as one:
        status, rollout = await one.run(expected_count=0)
    assert status == 200
    assert message in rollout["response"]["output"][1]["output"]
    assert rollout["reward"] == 1.0


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ({}, "responses_create_params: Field required"),
        ({"responses_create_params": 3}, "responses_create_params: an object"),
        ({"responses_create_params": {"input": [1]}}, "responses_create_params.input"),
        ({"responses_create_params": {"input": "x", "tools": {}}}, "responses_create_params.tools"),
        ([1], "body: an object"),
        (b"{", "body: not JSON"),
    ],
)
async def test_a_bad_row_is_a_422_that_names_the_field(row: Any, path: str) -> None:
    async with team(lambda body, turn: says()) as one:
        reply = await one.post("/run", row)
    error = orjson.loads(reply.body)["error"]
    assert reply.status == 422
    assert error["kind"] == "row"
    assert path in error["message"]
    assert not error["retryable"]


async def test_a_row_that_the_resources_server_refuses_is_the_rows_fault() -> None:
    async with team(lambda body, turn: says()) as one:
        status, reply = await one.run(initial_count="many")
    assert status == 422
    assert (reply["error"]["kind"], reply["error"]["server"], reply["error"]["retryable"]) == ("row", "counter", False)
    assert "initial_count" in reply["error"]["message"]


@pytest.mark.parametrize(
    ("answer", "retryable"), [(Answer(b"busy", 503), True), (Answer(b"who are you", 401), False), (Answer(b"[]"), True)]
)
async def test_a_failing_model_is_a_failure_and_no_reward(answer: Answer, retryable: bool) -> None:
    async with team(lambda body, turn: answer) as one:
        status, reply = await one.run()
    assert status >= 400
    assert reply["error"]["kind"] == "model"
    assert reply["error"]["server"] == "policy_model"
    assert reply["error"]["retryable"] is retryable
    assert "reward" not in reply


async def test_the_deadline_travels_and_ends_a_rollout() -> None:
    async with team(lambda body, turn: calls(("add", '{"count": 0}')), max_steps=None, max_tool_calls=None) as one:
        row = {"responses_create_params": {"input": "x"}, "expected_count": 0}
        reply = await one.post("/run", row, [(b"x-gym-timeout", b"1.5"), (b"x-gym-rollout-id", b"7-1")])
    given = [left for left in one.asked.timeouts if left is not None]
    assert reply.status == 504
    assert orjson.loads(reply.body)["error"]["kind"] == "timeout"
    assert set(one.asked.rollouts) == {"7-1"}
    assert given == sorted(given, reverse=True)
    assert given[0] <= 1.5


async def test_indices_of_a_row_name_its_rollout() -> None:
    async with team(lambda body, turn: says()) as one:
        await one.run(_ng_task_index=4, _ng_rollout_index=2, expected_count=0)
        await one.run(_ng_rollout_id="mine", expected_count=0)
    assert one.asked.rollouts == ["4-2", "mine"]


async def test_responses_alone_runs_the_loop_and_passes_cookies_on() -> None:
    def policy(body: Json, turn: int) -> Json:
        return calls(("add", '{"count": 2}')) if turn == 1 else says("two")

    async with team(policy) as one:
        reply = await one.post("/ng-rollout/9-9/v1/responses", {"input": "go"})
    names = {value.partition(b"=")[0] for key, value in reply.headers if key == b"set-cookie"}
    assert reply.status == 200
    assert items.output_text(orjson.loads(reply.body)["output"]) == "two"
    assert names == {b"kv", b"Counter___counter"}
    assert one.asked.rollouts == ["9-9", "9-9"]


async def test_verification_can_be_skipped_and_says_so() -> None:
    async with team(lambda body, turn: says(), skip_verification=True, skip_verification_reward=0.25) as one:
        status, rollout = await one.run()
    assert (status, rollout["reward"], rollout["verification_skipped"]) == (200, 0.25, True)


async def test_metrics_come_from_the_resources_server() -> None:
    replies = [{"_ng_task_index": 0, "reward": 1.0}, {"_ng_task_index": 0, "reward": 0.0}]
    async with team(lambda body, turn: says()) as one:
        reply = await one.post("/aggregate_metrics", {"verify_responses": replies})
        refused = await one.post("/aggregate_metrics", {"verify_responses": 3})
    assert orjson.loads(reply.body)["key_metrics"] == {"mean/reward": 0.5}
    assert refused.status == 422


async def test_an_agent_without_resources_aggregates_by_itself() -> None:
    async with team(lambda body, turn: says(), resources_server=None) as one:
        reply = await one.post("/aggregate_metrics", {"verify_responses": [{"reward": 1}]})
        refused = await one.post("/aggregate_metrics", {})
    assert orjson.loads(reply.body)["key_metrics"] == {"mean/reward": 1.0}
    assert refused.status == 422


async def test_an_agent_of_its_own_overrides_respond() -> None:
    class Parrot(Agent):
        async def respond(self, params: Mapping[str, Any], rollout: RolloutClient) -> Json:
            await rollout.call_tool("add", b'{"count": 3}')
            return items.response([items.message("polly")], model="none", params=params)

    async with team(lambda body, turn: says(), agent=Parrot) as one:
        status, rollout = await one.run()
    assert (status, rollout["reward"]) == (200, 1.0)
    assert one.asked.bodies == []


async def test_a_bug_in_an_agent_names_its_line() -> None:
    class Buggy(Agent):
        async def respond(self, params: Mapping[str, Any], rollout: RolloutClient) -> Json:
            return {"output": params["nothing here"]}

    async with team(lambda body, turn: says(), agent=Buggy) as one:
        status, reply = await one.run()
    assert status == 500
    assert reply["error"]["kind"] == "agent"
    assert "test_agent.py:" in reply["error"]["message"]
    assert "in respond" in reply["error"]["message"]


async def test_an_agent_without_a_model_says_what_is_missing() -> None:
    async with team(lambda body, turn: says(), model_server=None) as one:
        status, reply = await one.run()
    assert status == 500
    assert "names no model server" in reply["error"]["message"]

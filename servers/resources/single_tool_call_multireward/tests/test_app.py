"""single_tool_call_multireward on a real socket: three rewards, apart and together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from app import SingleToolCallMultireward
from hypothesis import given, settings
from hypothesis import strategies as st
from scoring import Call, read_calls, required_of, score

from gym.server.testing import Answered, Caller, read_lines, running
from gym.wire.items import function_call, message, response

DATA = Path(__file__).parents[1] / "data"
ROWS = read_lines(DATA / "example.jsonl")
CASES = [json.loads(line) for line in (DATA / "verifier_cases.jsonl").read_text("utf-8").splitlines()]
LISBON = ROWS[0]


async def verify(body: dict[str, Any], config: dict[str, Any] | None = None) -> Answered:
    app = SingleToolCallMultireward.app(config or {}, name="single_tool_call_multireward")
    async with running(app) as url, Caller(url) as caller:
        return await caller.post("/verify", body)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_a_case_of_the_folder_scores_as_it_says(case: dict[str, Any]) -> None:
    reply = await verify(case["request"], case.get("config"))
    if "expected_error" in case:
        assert reply.status == case["expected_error"]["status"]
        assert reply.body["error"]["kind"] == case["expected_error"]["kind"]
        return
    assert (reply.status, reply.body["reward"]) == (200, case["expected_reward"])
    assert reply.body | case.get("expected_fields", {}) == reply.body
    assert ("reason" in reply.body) == (reply.body["reward"] < 3.0)


async def test_the_calls_are_shown_parsed() -> None:
    output = [function_call("get_weather", '{"city": "Lisbon"}'), function_call("x", "no json")]
    reply = (await verify(LISBON | {"response": response(output, model="m")})).body
    assert reply["predicted_calls"] == [
        {"name": "get_weather", "arguments": {"city": "Lisbon"}},
        {"name": "x", "arguments": {}},
    ]
    assert reply["reward"] == sum(reply["reward_components"].values()) == 2.0


async def test_two_answers_of_one_sum_differ_in_their_components() -> None:
    wrong = response([function_call("get_weather", '{"city": "Oslo"}')], model="m")
    chatty = response([function_call("get_weather", '{"city": "Lisbon"}'), message("Done.")], model="m")
    one, other = [(await verify(LISBON | {"response": given})).body for given in (wrong, chatty)]
    assert one["reward"] == other["reward"] == 2.0
    assert one["reward_components"] != other["reward_components"]


async def test_the_tool_answers_so_that_an_agent_can_go_on() -> None:
    async with running(SingleToolCallMultireward.app({}, name="x")) as url, Caller(url) as caller:
        reply = await caller.post("/get_weather", {"city": "Lisbon"})
    assert reply.body == {"city": "Lisbon", "weather_description": "The weather in Lisbon is mild."}


async def test_metrics_tell_each_component_apart() -> None:
    replies = [
        {"_ng_task_index": 0, "reward": 2.0, "correctness": 0.0, "schema_valid": 1.0, "format": 1.0},
        {"_ng_task_index": 0, "reward": 3.0, "correctness": 1.0, "schema_valid": 1.0, "format": 1.0},
    ]
    async with running(SingleToolCallMultireward.app({}, name="x")) as url, Caller(url) as caller:
        metrics = (await caller.post("/aggregate_metrics", {"verify_responses": replies})).body["agent_metrics"]
    assert metrics["pass@1[avg-of-2]/correctness"] == 50.0
    assert metrics["pass@1[avg-of-2]/format"] == 100.0


EXPECTED = Call("f", {"n": 1, "text": "a"}, valid=True)
TOOLS = [
    {
        "name": "f",
        "parameters": {
            "properties": {"n": {"type": "integer"}, "text": {"type": ["string", "null"]}},
            "required": ["n"],
        },
    }
]


@pytest.mark.parametrize(
    ("arguments", "lenient", "strict"),
    [
        ({"n": 1, "text": "a"}, (1, 1), (1, 1)),
        ({"n": 1.0, "text": "a"}, (1, 1), (1, 0)),
        ({"n": True, "text": "a"}, (1, 1), (0, 0)),
        ({"n": 1, "text": "a", "more": 0}, (1, 1), (0, 0)),
        ({"n": 1}, (0, 1), (0, 1)),
        ({"n": 1, "text": None}, (0, 1), (0, 1)),
        ({"text": "a"}, (0, 0), (0, 0)),
    ],
)
def test_strict_compares_as_json_does_and_checks_types(
    arguments: dict[str, Any], lenient: tuple[int, int], strict: tuple[int, int]
) -> None:
    output = [function_call("f", json.dumps(arguments))]
    for expected, mode in ((lenient, False), (strict, True)):
        scores, _ = score(output, read_calls(output), EXPECTED, required_of(TOOLS), strict=mode)
        assert (scores["correctness"], scores["schema_valid"]) == expected


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
ITEMS = st.lists(
    st.builds(function_call, st.sampled_from(["f", "g"]), st.text(max_size=12) | ANYTHING.map(json.dumps))
    | st.dictionaries(st.sampled_from(["type", "name", "arguments", "role"]), ANYTHING, max_size=4)
    | st.fixed_dictionaries({"type": st.just("function_call"), "name": ANYTHING, "arguments": ANYTHING})
    | st.text(max_size=5).map(message),
    max_size=4,
)


@given(output=ITEMS, tools=st.lists(st.dictionaries(st.sampled_from(["name", "parameters"]), ANYTHING), max_size=2))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_output_and_any_tools_give_three_rewards(output: list[Any], tools: list[Any]) -> None:
    for strict in (False, True):
        scores, reason = score(output, read_calls(output), EXPECTED, required_of([*tools, *TOOLS]), strict=strict)
        assert set(scores.values()) <= {0.0, 1.0}
        assert bool(reason) == (sum(scores.values()) < 3.0)
        orjson.dumps(scores)

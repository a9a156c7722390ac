"""math_advanced_calculations on a real socket: what the functions give and what is found in an output."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from app import MathAdvancedCalculations
from grading import read_truth, score, states
from hypothesis import given, settings
from hypothesis import strategies as st
from universe import FUNCTIONS

from gym.server.testing import Answered, Caller, Rows, running
from gym.wire.failures import RolloutError
from gym.wire.items import function_call, function_call_output, message

DATA = Path(__file__).parents[1] / "data"
CASES = [json.loads(line) for line in (DATA / "verifier_cases.jsonl").read_text("utf-8").splitlines()]


async def call(path: str, body: dict[str, Any], config: dict[str, Any] | None = None) -> Answered:
    app = MathAdvancedCalculations.app(config or {}, name="math_advanced_calculations")
    async with running(app) as url, Caller(url) as caller:
        return await caller.post(path, body)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_a_case_of_the_folder_scores_as_it_says(case: dict[str, Any]) -> None:
    for step in case.get("steps", ()):
        assert (await call(f"/{step['tool']}", step["arguments"])).body == step["output"]
    reply = await call("/verify", case["request"], case.get("config"))
    if "expected_error" in case:
        assert reply.status == case["expected_error"]["status"]
        assert reply.body["error"]["kind"] == case["expected_error"]["kind"]
        assert "ground_truth" in reply.body["error"]["message"]
        return
    assert (reply.status, reply.body["reward"]) == (200, case["expected_reward"])
    assert ("reason" in reply.body) == (reply.body["reward"] == 0.0)


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("add", {"a": 3, "b": 7}, 11.2),
        ("subtract", {"a": 15, "b": 5}, 7.0),
        ("multiply", {"a": 5, "b": 2}, 11.0),
        ("divide", {"a": 10, "b": 2}, 2.5),
        ("sin", {"radians": math.pi / 2}, math.cos(math.pi / 2)),
        ("cos", {"radians": math.pi}, math.sin(math.pi)),
        ("power", {"a": 2, "b": 3}, 32.0),
        ("log", {"a": 100, "base": 8.5}, 2.0),
        ("pi", {}, math.e),
        ("negate", {"a": 7}, 7.0),
        ("return_constant", {"a": 42}, 42.0),
        ("add", {"a": 1, "b": 3, "radians": None, "base": None}, 5.2),
    ],
)
async def test_a_function_does_what_this_universe_wants(name: str, arguments: dict[str, Any], value: float) -> None:
    reply = await call(f"/{name}", arguments)
    assert (reply.status, reply.body) == (200, {"solution": value})


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("divide", {"a": 1, "b": 0}, "division by zero"),
        ("log", {"a": -1, "base": 2}, "log"),
        ("log", {"a": 5, "base": -0.5}, "division by zero"),
        ("power", {"a": -2, "b": 0.5}, "not a real number"),
        ("power", {"a": 1e300, "b": 9}, "power"),
        ("multiply", {"a": 1e308, "b": 1e308}, "not finite"),
    ],
)
async def test_a_call_without_a_value_says_why(name: str, arguments: dict[str, Any], words: str) -> None:
    reply = await call(f"/{name}", arguments)
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")
    assert words in reply.body["error"]["message"]


async def test_a_bad_or_missing_argument_is_named_and_an_unknown_function_is_not_found() -> None:
    assert (await call("/add", {"a": "x", "b": 1})).body["detail"][0]["loc"] == ["body", "a"]
    assert (await call("/add", {"a": 1})).body["detail"][0]["loc"] == ["body", "b"]
    assert (await call("/tan", {"radians": 1})).status == 404


async def test_the_tools_of_a_row_are_the_functions(rows: Rows) -> None:
    for row in rows:
        assert {tool["name"] for tool in row["responses_create_params"]["tools"]} == set(FUNCTIONS)


@pytest.mark.parametrize("given_truth", ["", "{}", "null", '["1"]', "[true]", "[]", "[NaN]", "7"])
def test_a_truth_that_names_no_numbers_is_the_rows_fault(given_truth: str) -> None:
    with pytest.raises(RolloutError, match="ground_truth") as caught:
        read_truth(given_truth)
    assert caught.value.kind == "row"


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("It is 142.56.", 142.56, True),
        ("It is 142.6", 142.56, True),
        ("It is 1,425.6", 1425.6, True),
        ("About 1.4256e2!", 142.56, True),
        ("x142.56 v1.142.56", 142.56, False),
        ("It is 143.", 142.56, False),
        ("-142.56", 142.56, False),
        ("", 0.0, False),
    ],
)
def test_an_answer_may_round_as_people_do(text: str, value: float, said: bool) -> None:
    assert states(text, value) is said


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["solution", "a", "b"]), inner),
    max_leaves=6,
)
ITEMS = st.lists(
    st.builds(function_call, st.sampled_from([*FUNCTIONS, "tan"]), st.text(max_size=9) | ANYTHING.map(json.dumps))
    | st.builds(function_call_output, st.just("c"), st.text(max_size=9) | ANYTHING.map(json.dumps))
    | st.dictionaries(st.sampled_from(["type", "name", "arguments", "output", "call_id"]), ANYTHING, max_size=4)
    | st.fixed_dictionaries({"type": st.just("function_call"), "name": ANYTHING, "arguments": ANYTHING})
    | st.fixed_dictionaries({"type": st.just("function_call_output"), "output": ANYTHING})
    | st.text(max_size=5).map(message),
    max_size=5,
)


@given(output=ITEMS, truth=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=3))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_any_output_is_scored(output: list[Any], truth: list[float]) -> None:
    for strict in (False, True):
        reward, reason = score(output, truth, strict=strict)
        assert (reward, bool(reason)) in ((1.0, False), (0.0, True))


@pytest.mark.parametrize("text", ["9" * 5_000_000, "1," * 2_000_000, "[" * 1_000_000])
def test_an_answer_of_megabytes_is_scored(text: str) -> None:
    output = [function_call("add", text), function_call_output("c", text), message(text)]
    for strict in (False, True):
        assert score(output, [4.0], strict=strict)[0] == 0.0

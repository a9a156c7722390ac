"""multi_step on a real socket: what is handed in last counts, in its order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gym.server import ServerApp
from gym.server.serve import load_app
from gym.server.testing import Answered, Caller, read_lines, running
from gym.wire.items import Item, function_call, message, response

HERE = Path(__file__).parents[1]
ROWS = read_lines(HERE / "data" / "example.jsonl")
ROW = {
    "responses_create_params": {"input": "values of warm: Blazing, Warm"},
    "id": 0,
    "expected_synonyms": ["Blazing", "Warm"],
    "expected_synonym_values": [711, 407],
    "minefield_label": "Hot",
    "minefield_label_value": 299,
}

pytestmark = pytest.mark.asyncio


async def verify(*output: Item, **changes: Any) -> Answered:
    async with running(load_app(HERE / "app.py")) as url, Caller(url) as caller:
        return await caller.post("/verify", ROW | changes | {"response": response(output, model="test")})


def hand_in(values: Any) -> Item:
    return function_call("extract_synonym_values", json.dumps({"synonym_values": values}))


async def test_the_tools_answer(app: ServerApp) -> None:
    async with running(app) as url, Caller(url) as caller:
        assert (await caller.post("/get_synonym_value", {"synonym": "Blazing"})).body == {"synonym_value": 711}
        assert (await caller.post("/extract_synonym_values", {"synonym_values": [1]})).body == {"success": True}
        assert (await caller.post("/extract_synonym_values", {"synonym_values": ["x"]})).status == 422


async def test_the_right_values_in_order_are_worth_1() -> None:
    reply = (await verify(hand_in([711, 407]), message("Done."))).body
    assert reply["reward"] == 1.0
    assert reply["accuracy"] is True
    assert reply["parsed_synonym_values"] == [711, 407]
    assert reply["set_overlap"] == 1.0
    assert reply["original_term_minefield_hit"] is False
    assert reply["order_instruction_following_failure"] is False
    assert "reason" not in reply


async def test_the_right_values_in_another_order_are_an_instruction_not_followed() -> None:
    reply = (await verify(hand_in([407, 711]))).body
    assert (reply["reward"], reply["set_overlap"]) == (0.0, 1.0)
    assert reply["order_instruction_following_failure"] is True


async def test_the_value_of_the_word_itself_is_a_mine() -> None:
    reply = (await verify(hand_in([711, 299]))).body
    assert (reply["reward"], reply["set_overlap"]) == (0.0, 0.5)
    assert reply["original_term_minefield_hit"] is True
    assert (await verify(hand_in([711, "Hot"]))).body["original_term_minefield_hit"] is True


async def test_of_several_calls_the_last_one_counts() -> None:
    assert (await verify(hand_in([1]), hand_in([711, 407]))).body["reward"] == 1.0
    assert (await verify(hand_in([711, 407]), hand_in([1]))).body["reward"] == 0.0


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ([message("711, 407")], "never called"),
        ([function_call("extract_synonym_values", "{not json")], "not JSON"),
        ([function_call("extract_synonym_values", "[]")], "not a list"),
        ([{"type": "function_call", "name": "extract_synonym_values"}], "not JSON"),
        ([hand_in(None)], "not a list"),
        ([hand_in([711, "407"])], "more than integers"),
        ([hand_in([711, [407]])], "more than integers"),
        ([hand_in([True])], "more than integers"),
    ],
)
async def test_what_cannot_be_read_is_worth_0_with_a_reason(output: list[Item], reason: str) -> None:
    reply = await verify(*output)
    assert (reply.status, reply.body["reward"]) == (200, 0.0)
    assert reason in reply.body["reason"]


@pytest.mark.parametrize(
    ("synonyms", "values", "said"),
    [
        ([], [], "nothing can be right"),
        (["Blazing", "Warm"], [711, 299], "the tool gives [711, 407]"),
        (["Blazing", "Warm"], [711], "the tool gives [711, 407]"),
    ],
)
async def test_a_row_whose_values_the_tool_does_not_give_is_the_rows_fault(
    synonyms: list[str], values: list[int], said: str
) -> None:
    reply = await verify(hand_in(values), expected_synonyms=synonyms, expected_synonym_values=values)
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")
    assert said in reply.body["error"]["message"]


async def test_a_row_without_its_fields_is_the_rows_fault(app: ServerApp) -> None:
    async with running(app) as url, Caller(url) as caller:
        reply = await caller.post("/verify", {"responses_create_params": {"input": "x"}, "response": {"output": []}})
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")
    assert "expected_synonym_values: Field required" in reply.body["error"]["message"]


@pytest.mark.parametrize("row", ROWS)
async def test_the_values_of_the_examples_are_what_the_tool_says(app: ServerApp, row: dict[str, Any]) -> None:
    async with running(app) as url, Caller(url) as caller:
        replies = [await caller.post("/get_synonym_value", {"synonym": one}) for one in row["expected_synonyms"]]
    assert [one.body["synonym_value"] for one in replies] == row["expected_synonym_values"]
    assert ", ".join(row["expected_synonyms"]) in row["responses_create_params"]["input"][-1]["content"]

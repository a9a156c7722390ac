"""Rows whose client sends parameters of its own: the row's prompt, and none at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gym.wire.failures import RolloutError
from gym.wire.rows import fill_params
from tests.support.peers import says, team

Json = dict[str, Any]
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object"}}


def filled(sent: Json, defaults: Any) -> Json:
    row = {"responses_create_params": sent, "responses_create_params_defaults": defaults, "mine": 1}
    return fill_params(row)


@pytest.mark.parametrize("empty", [{}, {"input": []}, {"input": ""}, {"input": None, "tools": None}])
def test_what_is_left_out_or_empty_is_the_default_and_what_is_sent_wins(empty: Json) -> None:
    found = filled({**empty, "temperature": 0.0}, {"input": "Hi", "tools": [TOOL], "temperature": 1.0, "top_p": 0.5})
    params = {"input": "Hi", "tools": [TOOL], "temperature": 0.0, "top_p": 0.5}
    assert found == {"mine": 1, "responses_create_params": params}


def test_a_prompt_that_is_sent_wins_and_null_defaults_are_none() -> None:
    assert filled({"input": "sent"}, {"input": "default"})["responses_create_params"] == {"input": "sent"}
    assert filled({"input": "sent"}, None)["responses_create_params"] == {"input": "sent"}


def test_defaults_that_are_not_an_object_are_the_rows_fault() -> None:
    with pytest.raises(RolloutError, match="found list"):
        filled({}, ["Hi"])


async def test_the_filled_row_is_what_everybody_sees() -> None:
    row = {
        "responses_create_params": {"input": [], "temperature": 0.5},
        "responses_create_params_defaults": {"input": "count", "temperature": 1.0},
        "expected_count": 0,
        "large": 2**70,  # more than orjson reads
    }
    async with team(lambda body, turn: says("one")) as one:
        reply = await one.post("/run", json.dumps(row).encode())
    rollout = json.loads(reply.body)
    assert (reply.status, rollout["reward"], rollout["large"]) == (200, 1.0, 2**70)
    assert rollout["responses_create_params"] == {"input": "count", "temperature": 0.5}
    assert "responses_create_params_defaults" not in rollout
    (asked,) = one.asked.bodies
    assert ([item["content"] for item in asked["input"]], asked["temperature"]) == (["count"], 0.5)


@pytest.mark.parametrize("params", [{}, {"input": []}, {"input": [], "temperature": 1.0}])
async def test_a_row_that_says_nothing_is_refused_and_the_model_is_not_asked(params: Json) -> None:
    async with team(lambda body, turn: says("one")) as one:
        status, reply = await one.run(responses_create_params=params)
    assert (status, reply["error"]["kind"], reply["error"]["retryable"]) == (422, "row", False)
    assert "responses_create_params.input is empty" in reply["error"]["message"]
    assert one.asked.bodies == []


@pytest.mark.parametrize("defaults", [{"input": 5}, {"input": [], "tools": "add"}, 3])
async def test_defaults_of_another_type_are_refused(defaults: Any) -> None:
    async with team(lambda body, turn: says("one")) as one:
        status, reply = await one.run(responses_create_params={"input": []}, responses_create_params_defaults=defaults)
    assert (status, reply["error"]["kind"]) == (422, "row")
    assert one.asked.bodies == []

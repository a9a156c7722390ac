"""Bodies of the contract: checked where we know them, kept where we do not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gym.wire.items import function_call, message
from gym.wire.rows import AgentRef, MultiRewardResponse, Row, VerifyRequest

ROW: dict[str, Any] = {"responses_create_params": {"input": "hi", "temperature": 0.2, "odd": [1]}, "mine": {"a": 1}}


def test_unknown_fields_are_kept_at_every_level() -> None:
    row = Row.model_validate(ROW | {"agent_ref": {"name": "a", "more": 1}})
    assert row.model_dump(exclude_unset=True)["responses_create_params"] == ROW["responses_create_params"]
    assert row.model_extra is not None
    assert row.model_extra["mine"] == {"a": 1}


def test_a_subclass_types_its_own_fields() -> None:
    class Mine(Row):
        expected: int

    assert Mine.model_validate(ROW | {"expected": 3}).expected == 3
    with pytest.raises(ValidationError, match="expected"):
        Mine.model_validate(ROW)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"responses_create_params": None}, "responses_create_params"),
        ({"responses_create_params": {"input": 5}}, "responses_create_params.input"),
        ({"responses_create_params": {"tools": {}}}, "responses_create_params.tools"),
        ({"response": {"output": "text"}}, "response.output"),
        ({"response": []}, "response"),
    ],
)
def test_a_wrong_field_is_named_by_its_place(change: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as caught:
        VerifyRequest.model_validate(ROW | {"response": {"output": []}} | change)
    assert ".".join(str(part) for part in caught.value.errors()[0]["loc"]).startswith(place)


def test_a_verify_request_reads_the_response_for_its_verifier() -> None:
    output = [message("one "), function_call("f", "{}"), message("two")]
    request = VerifyRequest.model_validate(ROW | {"response": {"output": output}})
    assert request.output_text == "one two"
    assert request.last_text == "two"
    assert [call["name"] for call in request.function_calls] == ["f"]


def test_an_agent_ref_is_of_an_agent() -> None:
    assert AgentRef(name="a").type == "responses_api_agents"
    with pytest.raises(ValidationError):
        AgentRef.model_validate({"type": "resources_servers", "name": "a"})


def test_several_rewards_stand_beside_their_scalar() -> None:
    dumped = MultiRewardResponse(reward=1.5, reward_components={"a": 1.0, "b": 0.5}).model_dump()
    assert dumped == {"reward": 1.5, "reward_components": {"a": 1.0, "b": 0.5}}

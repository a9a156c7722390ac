"""Bodies of the contract: checked where we know them, kept where we do not."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
import pytest
from pydantic import BaseModel, Field, ValidationError

from gym.wire.items import function_call, message
from gym.wire.rows import AgentRef, MultiRewardResponse, Row, VerifyRequest, read_body

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


class Lines(BaseModel):
    type: Literal["lines"]
    patterns: list[str] = []


class Marks(BaseModel):
    type: Literal["marks"]
    marks: list[str] = []


class Typed(VerifyRequest):
    expected: int
    options: list[str] = []
    wanted: Annotated[Lines | Marks, Field(discriminator="type")] = Lines(type="lines")


def typed(**fields: Any) -> Typed:
    return read_body(Typed, orjson.dumps({**ROW, "response": {"output": []}, "expected": 3, **fields}))


def test_a_null_where_a_default_stands_is_as_good_as_nothing() -> None:
    asked = {"input": "hi", "tools": None, "temperature": None}
    read = typed(responses_create_params=asked, options=None, wanted={"type": "lines", "patterns": None}, other=None)
    assert (read.options, read.responses_create_params.tools) == ([], [])
    assert read.wanted == Lines(type="lines")
    assert {"options", "wanted", "responses_create_params"} <= read.model_fields_set
    assert read.model_extra == {"mine": {"a": 1}, "other": None}


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"expected": None, "options": None}, "expected"),
        ({"options": ["a", None]}, r"options\.1"),
        ({"options": None, "wanted": {"type": None}}, "wanted"),
        ({"options": None, "response": None}, "response"),
    ],
)
def test_a_null_where_something_is_needed_is_refused(fields: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError, match=place):
        typed(**fields)

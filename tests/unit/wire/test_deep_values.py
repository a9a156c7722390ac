"""What is nested deeper than JSON is written."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from gym.server.score import make_writable
from gym.server.tools import result_to_json
from gym.wire.deep_values import DEEPER, LEVELS, cut_depth, is_too_deep, write_sorted
from gym.wire.json_text import write_json
from tests.support.deep_json import nested


def depth_of(value: Any) -> int:
    depth = 0
    while isinstance(value, dict | list):
        value, depth = next(iter(value.values())) if isinstance(value, dict) else value[0], depth + 1
    return depth


class Found(BaseModel):
    answer: Any


# A number beyond 64 bits and half a surrogate pair are written in other ways, each with a depth of its own.
INNER = [1, 2**70, "\ud800", float("nan")]


def test_what_is_not_too_deep_stays() -> None:
    value = nested(LEVELS)
    assert cut_depth(value) == value


def test_what_is_deeper_says_so_in_its_place() -> None:
    cut = cut_depth({"flat": [1, (2,)], "deep": nested(LEVELS + 5)})
    assert cut["flat"] == [1, [2]]
    assert depth_of(cut["deep"]) == LEVELS - 1
    assert DEEPER in json.dumps(cut)


@pytest.mark.parametrize("inner", INNER, ids=["number", "long number", "half a pair", "nan"])
@pytest.mark.parametrize("depth", [253, 254, 255, 900])
def test_a_verifier_and_a_tool_may_give_back_what_a_policy_nested(depth: int, inner: Any) -> None:
    value = nested(depth, [inner, inner])
    fields = make_writable({"reward": 1.0, "answer": value})
    assert orjson.loads(write_json(fields))["reward"] == 1.0
    assert depth_of(orjson.loads(result_to_json(value))) >= LEVELS
    assert "answer" in orjson.loads(result_to_json({"answer": value}))
    assert "answer" in orjson.loads(result_to_json(Found(answer=value)))


def test_what_contains_itself_is_not_json() -> None:
    circle: dict[str, Any] = {"reward": 1.0}
    circle["more"] = [circle]
    with pytest.raises(TypeError, match="contains itself") as caught:
        cut_depth(circle)
    assert not is_too_deep(caught.value)
    with pytest.raises(Exception, match="a field 'more' that is not JSON: it contains itself"):
        make_writable(circle)


def test_one_value_in_two_places_is_not_a_circle() -> None:
    shared = [1]
    assert cut_depth({"a": shared, "b": shared}) == {"a": [1], "b": [1]}


def test_equal_objects_are_the_same_bytes_however_deep_they_are() -> None:
    assert write_sorted({"a": 1, "b": 2}) == write_sorted({"b": 2, "a": 1})
    deep = nested(600)
    assert write_sorted({"a": deep, "b": 2}) == write_sorted({"b": 2, "a": deep}) != write_sorted({"a": deep, "b": 3})

"""Tool calls as verifiers compare them."""

from __future__ import annotations

from typing import Any

import pytest

from gym.wire.calls import greatest_matching, greatest_pairing, read_arguments, refuse_unoffered, same_json
from gym.wire.failures import RolloutError


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ('{"a": [1]}', {"a": [1]}),
        ({"a": 1}, {"a": 1}),
        ("", None),
        ("{a: 1}", None),
        ('{"a": "\\ud800"}', None),
        ('{"a": NaN}', None),
        ('{"a":' * 600 + "1" + "}" * 600, None),
        ("null", None),
    ],
)
def test_what_arguments_say(arguments: Any, read: Any) -> None:
    assert read_arguments(arguments) == read


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (True, True, True),
        (0, False, False),
        (None, None, True),
        (None, 0, False),
        ({"a": [1, "x"]}, {"a": [1.0, "x"]}, True),
        ({"a": 1}, {"b": 1}, False),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        ([True], [1], False),
        ("1", 1, False),
    ],
)
def test_what_is_the_same_in_json(one: Any, other: Any, same: bool) -> None:
    assert same_json(one, other) is same
    assert same_json(other, one) is same


@pytest.mark.parametrize(
    ("edges", "given", "size"),
    [
        ({0: {0, 1}, 1: {0}}, 2, 2),
        ({0: {0}, 1: {0}}, 2, 1),
        ({0: set(), 1: {1}}, 2, 1),
        ({0: {0, 1}, 1: {0, 2}, 2: {0}}, 3, 3),
        ({}, 3, 0),
    ],
)
def test_as_many_as_can_be_are_matched(edges: dict[int, set[int]], given: int, size: int) -> None:
    assert greatest_matching(len(edges), given, lambda one, other: other in edges[one]) == size


def test_a_pairing_says_who_has_whom() -> None:
    edges = {0: {0, 1}, 1: {0}, 2: {0, 1}}
    pairs = greatest_pairing(3, 2, lambda one, other: other in edges[one])
    assert pairs == {1: 0, 0: 1}


def test_a_matching_of_many_does_not_run_out_of_stack() -> None:
    assert greatest_matching(400, 400, lambda one, other: other in (one, one + 1)) == 400
    assert greatest_matching(400, 400, lambda one, other: one >= other) == 400


def test_a_truth_that_calls_a_tool_which_is_not_offered_is_the_rows_fault() -> None:
    tools: list[dict[str, Any]] = [{"name": "add"}, {"type": "function", "function": {"name": "sub"}}]
    refuse_unoffered(["add", "sub"], tools, field="expected")
    refuse_unoffered(["mul"], [], field="expected")  # a row that offers none is not held to it
    with pytest.raises(RolloutError, match="expected: the row offers no tool named 'mul', only add, sub") as raised:
        refuse_unoffered(["add", "mul"], tools, field="expected")
    assert raised.value.kind == "row"

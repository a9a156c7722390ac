"""What the contract asks of a row: the path of the field, what was found, and what to write instead."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym.data.contract import check_contract, is_plain

GOOD: dict[str, Any] = {
    "responses_create_params": {
        "input": [{"role": "user", "content": "What?"}, {"type": "function_call", "call_id": "1"}],
        "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}, {"type": "web_search"}],
        "temperature": 0.5,
        "instructions": "Be short.",
        "metadata": {},
    },
    "agent_ref": {"type": "responses_api_agents", "name": "mcqa_simple_agent"},
}
PLACES = (
    ("responses_create_params",),
    ("responses_create_params", "input"),
    ("responses_create_params", "input", 0),
    ("responses_create_params", "input", 0, "role"),
    ("responses_create_params", "input", 0, "content"),
    ("responses_create_params", "input", 0, "type"),
    ("responses_create_params", "tools"),
    ("responses_create_params", "tools", 0),
    ("responses_create_params", "tools", 0, "name"),
    ("responses_create_params", "tools", 0, "type"),
    ("responses_create_params", "tools", 0, "parameters"),
    ("responses_create_params", "temperature"),
    ("responses_create_params", "instructions"),
    ("responses_create_params", "metadata"),
    ("agent_ref",),
    ("agent_ref", "name"),
    ("agent_ref", "type"),
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    1.5,
    "",
    "user",
    "usr",
    "function",
    "message",
    [],
    [1],
    {},
    {"name": "x"},
    ["x"],
)


def changed(place: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    row = copy.deepcopy(GOOD)
    inner: Any = row
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    return row


def findings_in(row: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one.key, one.what, one.value) for one in check_contract(row)]


def test_a_row_may_ask_for_its_server_s_own_tools() -> None:
    assert list(check_contract({"responses_create_params": {"input": "?", "tools": "auto"}})) == []


def test_a_good_row_has_no_findings() -> None:
    assert findings_in(GOOD) == []
    assert findings_in({"responses_create_params": {"input": "What?"}}) == []


@pytest.mark.parametrize(
    ("place", "value", "finding"),
    [
        (("responses_create_params",), [], ("responses_create_params", "is a list, not an object", "[]")),
        (
            ("responses_create_params", "input"),
            3,
            ("responses_create_params.input", "is a number, not a string or a list of items", "3"),
        ),
        (
            ("responses_create_params", "input", 0),
            "x",
            ("responses_create_params.input[0]", "is a string, not an object", '"x"'),
        ),
        (
            ("responses_create_params", "input", 0, "role"),
            "usr",
            ("responses_create_params.input[0].role", "is not a role of a message", '"usr"'),
        ),
        (
            ("responses_create_params", "input", 0, "content"),
            None,
            ("responses_create_params.input[0].content", "is null, not a string or a list of parts", "null"),
        ),
        (
            ("responses_create_params", "tools"),
            "atuo",
            ("responses_create_params.tools", "is a string, not a list of objects", '"atuo"'),
        ),
        (
            ("responses_create_params", "tools"),
            {},
            ("responses_create_params.tools", "is an object, not a list of objects", "{}"),
        ),
        (
            ("responses_create_params", "tools", 0, "name"),
            "",
            ("responses_create_params.tools[0].name", "is empty", ""),
        ),
        (
            ("responses_create_params", "temperature"),
            "1",
            ("responses_create_params.temperature", "is a string, not a number", '"1"'),
        ),
        (
            ("responses_create_params", "temperature"),
            True,
            ("responses_create_params.temperature", "is true or false, not a number", "true"),
        ),
        (("agent_ref",), "mcqa", ("agent_ref", "is a string, not an object", '"mcqa"')),
        (("agent_ref", "name"), 3, ("agent_ref.name", "is a number, not a name", "3")),
        (("agent_ref", "type"), "agents", ("agent_ref.type", "is not responses_api_agents", '"agents"')),
    ],
)
def test_a_wrong_field_is_named_with_what_stands_there(
    place: tuple[str | int, ...], value: Any, finding: tuple[str, str, str]
) -> None:
    assert findings_in(changed(place, value)) == [finding]


def test_a_tool_as_chat_completions_write_it_is_reported_with_the_right_form() -> None:
    row = changed(("responses_create_params", "tools"), [{"type": "function", "function": {"name": "look"}}])
    (problem,) = check_contract(row)
    assert (problem.key, problem.what) == ("responses_create_params.tools[0].name", "is missing")
    assert "one level up" in problem.hint


def test_a_misspelt_key_is_reported_with_the_right_one() -> None:
    (problem,) = check_contract({"response_create_params": {}})
    assert problem.hint == "did you mean responses_create_params where you wrote response_create_params?"


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(VALUES)), max_size=3))
def test_the_cheap_look_lets_nothing_pass_that_the_whole_one_finds(changes: list[tuple[Any, Any]]) -> None:
    row = copy.deepcopy(GOOD)
    for place, value in changes:
        inner: Any = row
        for part in place[:-1]:
            fits = part < len(inner) if isinstance(inner, list) and isinstance(part, int) else part in inner
            inner = inner[part] if isinstance(inner, list | dict) and fits else None
            if not isinstance(inner, list | dict):
                break
        if isinstance(inner, dict) or (isinstance(inner, list) and isinstance(place[-1], int) and inner):
            inner[place[-1]] = value
    if is_plain(row):
        assert findings_in(row) == []


def test_the_cheap_look_is_enough_for_the_rows_that_most_data_sets_have() -> None:
    row = {"responses_create_params": {"input": [{"role": "user", "content": "x"}], "temperature": 1}}
    assert is_plain(row)
    assert is_plain({**row, "agent_ref": {"name": "a"}})

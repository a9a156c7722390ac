"""Items of the Responses format: made whole, read tolerantly."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response

from gym.wire import items

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "role", "content", "text", "name", "odd"]), inner, max_size=4)
    ),
    max_leaves=15,
)


def parts(*texts: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text} for text in texts]
    return {"type": "message", "role": "assistant", "content": content}


def test_what_we_make_is_what_the_openai_client_reads() -> None:
    output = [
        items.reasoning("hm"),
        items.function_call("look", '{"at": "this"}'),
        items.message("done"),
    ]
    made = items.response(output, model="m", params={"temperature": 0.5}, usage=items.text_usage(3, 4))
    read = Response.model_validate(made)
    assert read.output_text == "done"
    assert read.temperature == 0.5
    assert read.usage is not None
    assert read.usage.total_tokens == 7
    assert read.status == "completed"


def test_an_incomplete_response_says_why() -> None:
    made = items.response([], model="m", incomplete="max_output_tokens")
    assert made["status"] == "incomplete"
    assert made["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_users_text_is_input_text() -> None:
    assert items.message("hi", role="user")["content"] == [{"type": "input_text", "text": "hi"}]


def test_a_call_keeps_the_id_it_is_given() -> None:
    assert items.function_call("f", "{}", call_id="c1")["call_id"] == "c1"
    assert items.function_call_output("c1", "out") == {"type": "function_call_output", "call_id": "c1", "output": "out"}
    assert items.function_call("f", "{}")["call_id"] != items.function_call("f", "{}")["call_id"]


def test_output_text_joins_every_message_with_nothing() -> None:
    output = [parts("a", "b"), items.reasoning("no"), parts("c"), {"role": "assistant", "content": "d"}]
    assert items.output_text(output) == "abcd"


def test_the_last_assistant_message_may_be_followed_by_something_else() -> None:
    output = [parts("first"), parts("la", "st"), items.function_call("f", "{}")]
    assert items.last_assistant_text(output) == "last"
    assert items.last_assistant_text([items.function_call("f", "{}")]) == ""


def test_a_refusal_has_no_text() -> None:
    refusal = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}
    assert items.output_text([refusal]) == ""


def test_text_may_be_joined_with_something() -> None:
    assert items.item_text(parts("a", "b"), "\n") == "a\nb"


@pytest.mark.parametrize(
    ("item", "role", "expected"),
    [
        ({"role": "user", "content": "x"}, "user", True),
        ({"type": "message", "role": "user"}, "assistant", False),
        ({"type": "reasoning", "role": "assistant"}, "assistant", False),
        ("message", "assistant", False),
    ],
)
def test_a_message_may_lack_its_type(item: Any, role: str, expected: bool) -> None:
    assert items.is_message(item, role) is expected


def test_an_input_string_is_one_user_message() -> None:
    assert items.input_items("hi") == [{"type": "message", "role": "user", "content": "hi"}]
    assert items.input_items([{"role": "user"}, "odd"]) == [{"role": "user"}]
    assert items.input_items(None) == []


def test_usages_add_up_and_absent_details_stay_absent() -> None:
    one = {"input_tokens": 1, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 1}}
    two = {"input_tokens": 10, "output_tokens_details": {"reasoning_tokens": None}}
    assert items.add_usage(items.add_usage(None, one), two) == {
        "input_tokens": 11,
        "output_tokens": 2,
        "input_tokens_details": {"cached_tokens": 1},
        "output_tokens_details": {"reasoning_tokens": None},
    }
    assert items.add_usage(None, None) is None
    assert one["input_tokens"] == 1


@given(output=ANYTHING)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_no_output_of_a_peer_breaks_a_reader(output: Any) -> None:
    assert isinstance(items.output_text(output), str)
    assert isinstance(items.last_assistant_text(output), str)
    assert all(isinstance(call, dict) for call in items.function_calls(output))
    assert all(isinstance(item, dict) for item in items.input_items(output))

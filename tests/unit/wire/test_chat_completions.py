"""Chat Completions as a Responses model serves them."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from gym.wire import items
from gym.wire.chat import responses_to_chat
from gym.wire.completions import chat_to_responses, response_to_completion
from gym.wire.failures import RolloutError

FUNCTION = {"name": "f", "parameters": {"type": "object"}}


def test_messages_become_items_in_order() -> None:
    params = chat_to_responses(
        {
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {
                    "role": "assistant",
                    "content": "<think>hm</think>I look.",
                    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "out"},
                {"role": "assistant", "content": None},
            ]
        }
    )
    kinds = [(item["type"], item.get("role")) for item in params["input"]]
    assert kinds == [
        ("message", "system"),
        ("message", "user"),
        ("reasoning", None),
        ("message", "assistant"),
        ("function_call", None),
        ("function_call_output", None),
    ]
    assert params["input"][1]["content"] == [{"type": "input_text", "text": "hi"}]
    assert params["input"][5] == {"type": "function_call_output", "call_id": "c1", "output": "out"}


def test_parameters_are_renamed_and_unknown_ones_travel_on() -> None:
    params = chat_to_responses(
        {
            "messages": [{"role": "user", "content": "x"}],
            "max_completion_tokens": 9,
            "max_tokens": 8,
            "reasoning_effort": "low",
            "temperature": 0.5,
            "stop": ["."],
            "logprobs": True,
            "tools": [{"type": "function", "function": FUNCTION}],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "parallel_tool_calls": False,
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
        }
    )
    del params["input"]
    assert params == {
        "max_output_tokens": 9,
        "reasoning": {"effort": "low"},
        "temperature": 0.5,
        "stop": ["."],
        "tools": [{"type": "function", "strict": False, **FUNCTION}],
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": False,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}},
    }


def test_a_request_survives_the_way_to_responses_and_back() -> None:
    body = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "s"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "hi"},
                    {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}},
                    {"type": "video_url", "video_url": {"url": "http://v"}},
                ],
            },
            {"role": "assistant", "content": "a"},
            {"role": "user", "content": "more"},
        ],
        "max_tokens": 3,
        "tools": [{"type": "function", "function": FUNCTION}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
        "reasoning_effort": "low",
        "seed": 4,
    }
    assert responses_to_chat(chat_to_responses(body)) == body


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"messages": [{"content": "x"}]}, r"messages\[0\]"),
        ({"messages": ["x"]}, r"messages\[0\]"),
        ({"messages": [{"role": "user", "content": [{"type": "odd"}]}]}, r"messages\[0\].content\[0\]: .*`odd`"),
        ({"messages": [{"role": "user", "content": "x"}], "n": 2}, "n: 2 answers"),
    ],
)
def test_a_message_that_cannot_be_read_names_its_place(body: dict[str, Any], place: str) -> None:
    with pytest.raises(RolloutError, match=place):
        chat_to_responses(body)


def test_a_reply_is_a_chat_completion_with_reasoning_beside_the_text() -> None:
    output = [items.reasoning("hm"), items.message("yes"), items.function_call("f", "{}", call_id="c")]
    completion = response_to_completion(items.response(output, model="m", usage=items.text_usage(1, 2)), {})
    parsed = ChatCompletion.model_validate(completion)
    assert parsed.choices[0].finish_reason == "tool_calls"
    assert parsed.choices[0].message.content == "yes"
    assert completion["choices"][0]["message"]["reasoning_content"] == "hm"
    assert completion["usage"]["total_tokens"] == 3


@pytest.mark.parametrize(("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter")])
def test_an_incomplete_reply_says_why_it_ended(reason: str, finish: str) -> None:
    reply = items.response([items.message("x")], model="m", incomplete=reason)
    assert response_to_completion(reply, {})["choices"][0]["finish_reason"] == finish


def test_a_refusal_is_said_as_one() -> None:
    refusal = items.message("") | {"content": [{"type": "refusal", "refusal": "no"}]}
    [choice] = response_to_completion(items.response([refusal], model="m"), {})["choices"]
    assert (choice["message"]["content"], choice["message"]["refusal"]) == (None, "no")


def test_an_empty_reply_has_empty_text_rather_than_none() -> None:
    [choice] = response_to_completion(items.response([], model="m"), {})["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "stop")

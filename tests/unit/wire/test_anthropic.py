"""The Messages dialect as a Responses model serves it."""

from __future__ import annotations

from typing import Any

import pytest

from gym.wire import items
from gym.wire.anthropic import messages_to_responses, response_to_message
from gym.wire.failures import RolloutError


def test_blocks_become_items_in_order_and_neighbouring_parts_share_a_message() -> None:
    params = messages_to_responses(
        {
            "system": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}},
                        {"type": "image", "source": {"type": "url", "url": "http://i"}},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "s"},
                        {"type": "redacted_thinking", "data": "x"},
                        {"type": "text", "text": "I call."},
                        {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "out"}]},
                        {"type": "text", "text": "go on"},
                    ],
                },
                {"role": "assistant", "content": "ok"},
            ],
        }
    )
    assert params["instructions"] == "one\n\ntwo"
    assert [item["type"] for item in params["input"]] == [
        "message",
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
        "message",
        "message",
    ]
    look, thought, said, call, output, more, _ = params["input"]
    assert [part.get("image_url") for part in look["content"]] == [None, "data:image/png;base64,QQ==", "http://i"]
    assert thought["summary"][0]["text"] == "hm"
    assert (said["role"], items.item_text(said)) == ("assistant", "I call.")
    assert (call["call_id"], call["name"], call["arguments"]) == ("t1", "f", '{"a":1}')
    assert (output["call_id"], output["output"], items.item_text(more)) == ("t1", "out", "go on")


def test_parameters_are_renamed_and_unknown_ones_travel_on() -> None:
    params = messages_to_responses(
        {
            "model": "m",
            "max_tokens": 9,
            "system": "s",
            "messages": [{"role": "user", "content": "x"}],
            "stop_sequences": ["."],
            "top_k": 3,
            "thinking": {"type": "enabled", "budget_tokens": 1024},
            "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        }
    )
    del params["input"]
    assert params == {
        "model": "m",
        "max_output_tokens": 9,
        "instructions": "s",
        "stop": ["."],
        "top_k": 3,
        "tools": [
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": False}
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
    }


def test_a_chosen_tool_is_named() -> None:
    params = messages_to_responses({"messages": [], "tool_choice": {"type": "tool", "name": "f"}})
    assert params["tool_choice"] == {"type": "function", "name": "f"}


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"messages": [{"role": "robot", "content": "x"}]}, r"messages\[0\].role: .*'robot'"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, r"messages\[0\].content\[0\]"),
        (
            {"messages": [{"role": "user", "content": [{"type": "document"}]}]},
            r"messages\[0\].content\[0\]: .*`document`",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"type": "image"}]}]}]},
            r"messages\[0\].content\[0\].content\[0\]",
        ),
        ({"messages": [], "tools": [{"type": "web_search_20250305", "name": "w"}]}, r"tools\[0\]: .*web_search"),
    ],
)
def test_what_cannot_be_read_names_its_place(body: dict[str, Any], place: str) -> None:
    with pytest.raises(RolloutError, match=place) as caught:
        messages_to_responses(body)
    assert caught.value.kind == "row"


def test_a_reply_has_thinking_text_and_tool_use_blocks() -> None:
    output = [items.reasoning("hm"), items.message("yes"), items.function_call("f", '{"a":1}', call_id="c")]
    usage = items.text_usage(10, 2)
    usage["input_tokens_details"]["cached_tokens"] = 4
    message = response_to_message(items.response(output, model="m", usage=usage), {})
    assert message["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": ""},
        {"type": "text", "text": "yes"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
    ]
    assert (message["stop_reason"], message["role"], message["type"]) == ("tool_use", "assistant", "message")
    usage = message["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"], usage["output_tokens"]) == (6, 4, 2)


@pytest.mark.parametrize(
    ("reason", "stop"), [("", "end_turn"), ("max_output_tokens", "max_tokens"), ("content_filter", "refusal")]
)
def test_a_reply_says_why_it_stopped(reason: str, stop: str) -> None:
    reply = items.response([items.message("x")], model="m", incomplete=reason)
    assert response_to_message(reply, {})["stop_reason"] == stop


@pytest.mark.parametrize("raw", ["not json", "[1]"])
def test_arguments_that_are_not_an_object_stay_visible(raw: str) -> None:
    reply = items.response([items.function_call("f", raw)], model="m")
    assert response_to_message(reply, {})["content"][0]["input"] == {"invalid_arguments": raw}


def test_token_fields_of_the_call_travel_on_the_message() -> None:
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.1]}
    message = response_to_message(items.response([items.message("x") | tokens], model="m"), {})
    assert {key: message[key] for key in tokens} == tokens

"""Responses requests put to a chat endpoint, and its replies read back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from gym.wire import chat, items
from gym.wire.completions import response_to_completion
from gym.wire.failures import RolloutError
from gym.wire.thoughts import items_thoughts

TOKENS = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.1]}
TOOL = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}


def completion(message: dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}


def test_a_text_input_becomes_one_user_message_with_one_text_part() -> None:
    body = chat.responses_to_chat({"input": "hi", "model": "m"})
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


def test_instructions_and_leading_system_messages_become_one_system_message() -> None:
    asked = [
        {"role": "developer", "content": "second"},
        {"role": "system", "content": [{"type": "input_text", "text": "third"}]},
        {"role": "user", "content": "hi"},
        {"role": "developer", "content": "later"},
    ]
    body = chat.responses_to_chat({"input": asked, "instructions": "first"})
    assert body["messages"] == [
        {"role": "system", "content": "first\n\nsecond\n\nthird"},
        {"role": "user", "content": "hi"},
        {"role": "developer", "content": "later"},
    ]


def test_neighbouring_assistant_items_share_one_message() -> None:
    asked = [
        {"role": "user", "content": "hi"},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "hm"}, {"type": "summary_text", "text": "ah"}],
        },
        items.message("I look."),
        items.function_call("f", '{"a":1}', call_id="c1"),
        items.function_call("g", "{}", call_id="c2"),
        items.function_call_output("c1", "one"),
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
        items.message("done"),
    ]
    messages = chat.responses_to_chat({"input": asked})["messages"]
    assert messages[1] == {
        "role": "assistant",
        "content": "<think>hm</think><think>ah</think>I look.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
            {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }
    assert messages[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "assistant", "content": "done"},
    ]


def test_an_assistant_message_of_calls_alone_has_null_content() -> None:
    messages = chat.input_to_messages([items.function_call("f", "{}")])
    assert messages[0]["content"] is None
    assert len(messages[0]["tool_calls"]) == 1


def test_an_inline_tool_call_of_an_assistant_message_is_kept() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = chat.input_to_messages([{"role": "assistant", "content": "x", "tool_calls": [call]}])
    assert messages == [{"role": "assistant", "content": "x", "tool_calls": [call]}]


def test_images_and_videos_keep_their_address() -> None:
    content = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:x"},
        {"type": "input_video", "video_url": "http://v"},
    ]
    [message] = chat.input_to_messages([{"role": "user", "content": content}])
    assert message["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:x", "detail": "auto"}},
        {"type": "video_url", "video_url": {"url": "http://v"}},
    ]


@pytest.mark.parametrize(
    ("params", "place"),
    [
        ({"input": [{"type": "web_search_call"}]}, r"input\[0\]: an item of type `web_search_call`"),
        ({"input": ["x"]}, r"input\[0\] is not an object"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
            r"input\[0\].content\[0\]: .*`input_file`",
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image"}]}]},
            r"input\[0\].output\[0\]",
        ),
        ({"input": "x", "tools": [{"type": "web_search"}]}, r"tools\[0\]: a tool of type `web_search`"),
        ({"input": "x", "tool_choice": "required"}, "tool_choice"),
        ({"input": "x", "previous_response_id": "r"}, "previous_response_id"),
    ],
)
def test_what_a_chat_endpoint_cannot_say_is_the_rows_fault_and_names_the_place(
    params: dict[str, Any], place: str
) -> None:
    with pytest.raises(RolloutError, match=place) as caught:
        chat.responses_to_chat(params)
    assert (caught.value.kind, caught.value.status, caught.value.retryable) == ("row", 422, False)


def test_parameters_are_renamed_and_unknown_ones_travel_on() -> None:
    body = chat.responses_to_chat(
        {
            "input": "x",
            "max_output_tokens": 9,
            "reasoning": {"effort": "low"},
            "temperature": 0.5,
            "top_k": 3,
            "top_logprobs": 0,
            "background": False,
            "truncation": "auto",
            "metadata": {},
            "user": None,
            "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}},
        }
    )
    del body["messages"]
    assert body == {
        "max_tokens": 9,
        "reasoning_effort": "low",
        "temperature": 0.5,
        "top_k": 3,
        "top_logprobs": 0,
        "logprobs": True,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
    }


def test_tools_are_wrapped_and_lose_type_and_strict() -> None:
    asked = {
        "input": "x",
        "tools": [TOOL],
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": False,
    }
    body = chat.responses_to_chat(asked)
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert body["parallel_tool_calls"] is False


def test_without_tools_nothing_is_said_about_calling_them() -> None:
    body = chat.responses_to_chat({"input": "x", "tools": [], "tool_choice": "auto", "parallel_tool_calls": True})
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & body.keys()


def test_token_fields_of_the_last_item_go_back_with_their_message_when_asked() -> None:
    asked = [
        items.message("a"),
        items.function_call("f", "{}", call_id="c") | TOKENS,
        items.function_call_output("c", "x"),
    ]
    with_tokens = chat.responses_to_chat({"input": asked}, token_fields=True)["messages"][0]
    without = chat.responses_to_chat({"input": asked})["messages"][0]
    assert {key: with_tokens[key] for key in TOKENS} == TOKENS
    assert not TOKENS.keys() & without.keys()


def test_think_blocks_become_one_reasoning_item_and_the_rest_a_message() -> None:
    reply = chat.completion_to_response(completion({"content": "<think>a</think>\n<think>b\nc</think>yes"}), {})
    assert [item["type"] for item in reply["output"]] == ["reasoning", "message"]
    assert [part["text"] for part in reply["output"][0]["summary"]] == ["a", "b\nc"]
    assert items.output_text(reply["output"]) == "\nyes"


@pytest.mark.parametrize("spelling", ["reasoning_content", "reasoning"])
def test_reasoning_in_a_field_of_its_own_becomes_a_reasoning_item(spelling: str) -> None:
    reply = chat.completion_to_response(completion({"content": "yes", spelling: "hm"}), {})
    assert items_thoughts(reply["output"]) == ["hm"]


def test_token_fields_go_onto_the_last_item_of_the_call() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"content": "<think>a</think>x", "tool_calls": [call], "routed_experts": "b64", **TOKENS}
    reply = chat.completion_to_response(completion(message, "tool_calls"), {})
    assert [TOKENS.keys() <= item.keys() for item in reply["output"]] == [False, False, True]
    assert reply["output"][-1]["routed_experts"] == "b64"


def test_empty_generation_ids_count_as_absent() -> None:
    message = {"content": "x", "prompt_token_ids": [1], "generation_token_ids": [], "generation_log_probs": []}
    reply = chat.completion_to_response(completion(message), {})
    assert not TOKENS.keys() & reply["output"][-1].keys()


def test_a_call_takes_the_providers_id_twice() -> None:
    call = {"id": "call_7", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    [item] = chat.completion_to_response(completion({"content": None, "tool_calls": [call]}), {})["output"]
    assert (item["id"], item["call_id"], item["arguments"]) == ("call_7", "call_7", '{"a":1}')


def test_nothing_said_is_one_empty_message() -> None:
    [item] = chat.completion_to_response(completion({"content": None}), {})["output"]
    assert items.item_text(item) == ""


def test_a_refusal_stays_a_refusal() -> None:
    [item] = chat.completion_to_response(completion({"content": None, "refusal": "no"}), {})["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "no"}]


@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter"), ("stop", None)]
)
def test_a_finish_reason_becomes_a_status(finish: str, reason: str | None) -> None:
    reply = chat.completion_to_response(completion({"content": "x"}, finish), {})
    assert reply["status"] == ("incomplete" if reason else "completed")
    assert reply["incomplete_details"] == ({"reason": reason} if reason else None)


def test_usage_is_renamed_with_its_details() -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 3,
        "total_tokens": 8,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": None,
    }
    reply = chat.completion_to_response(completion({"content": "x"}, usage=usage), {})
    assert reply["usage"] == {
        "input_tokens": 5,
        "output_tokens": 3,
        "total_tokens": 8,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }


@pytest.mark.parametrize(
    "broken", [{}, {"choices": []}, {"choices": [{}]}, {"choices": "x"}, {"choices": [{"message": 1}]}]
)
def test_a_reply_without_a_message_is_the_models_failure(broken: dict[str, Any]) -> None:
    with pytest.raises(RolloutError, match="choices") as caught:
        chat.completion_to_response(broken, {})
    assert caught.value.kind == "model"


def test_no_room_for_an_answer_is_an_incomplete_empty_response() -> None:
    reply = chat.completion_to_response(chat.length_completion("m"), {"model": "m"})
    assert (reply["status"], items.output_text(reply["output"])) == ("incomplete", "")


TEXTS = st.text(max_size=20).filter(lambda text: "think>" not in text)
CALLS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("fg"), "arguments": st.sampled_from(["{}", '{"a":1}'])})
)


@settings(max_examples=60, derandomize=True)
@given(thought=TEXTS, said=TEXTS, calls=CALLS, cut=st.booleans(), tokens=st.booleans())
def test_a_reply_survives_the_way_to_chat_and_back(
    thought: str, said: str, calls: list[dict[str, str]], cut: bool, tokens: bool
) -> None:
    output = [items.reasoning(thought)] if thought else []
    output += [items.message(said)] if said or not (thought or calls) else []
    output += [items.function_call(call["name"], call["arguments"]) for call in calls]
    if tokens:
        output[-1] |= TOKENS
    reply = items.response(
        output, model="m", usage=items.text_usage(1, 2), incomplete="max_output_tokens" if cut else ""
    )
    there = response_to_completion(reply, {})
    back = chat.completion_to_response(there, {})
    Response.model_validate(back)
    ChatCompletion.model_validate(there)
    assert [_essence(item) for item in back["output"]] == [_essence(item) for item in output]
    assert (back["status"], back["usage"]) == (reply["status"], reply["usage"])


def _essence(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "id" or item["type"] == "function_call"}

"""Model calls in the words of the GenAI conventions: both dialects, odd items, content only where it is asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gym.wire.genai import describe_content, describe_reply, describe_request
from gym.wire.items import message, response

CHAT = {
    "id": "c1",
    "model": "m-2026",
    "choices": [{"finish_reason": "length", "message": {"role": "assistant", "content": "4"}}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 1},
}


def test_a_chat_and_a_response_are_described_alike() -> None:
    asked = describe_request({"model": "m", "temperature": 0.5, "max_tokens": 9, "top_p": None, "seed": True})
    assert asked == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "compose_gym",
        "gen_ai.request.model": "m",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 9,
    }
    assert describe_reply(CHAT) == {
        "gen_ai.response.model": "m-2026",
        "gen_ai.response.id": "c1",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 1,
        "gen_ai.response.finish_reasons": ["length"],
    }
    reply = {**response([message("4")], model="m"), "usage": {"input_tokens": 7, "output_tokens": 1}}
    found = describe_reply(reply)
    assert found["gen_ai.usage.input_tokens"] == 7
    assert found["gen_ai.response.finish_reasons"] == ["stop"]


def test_neither_asked_nor_answered_is_in_a_description() -> None:
    body = {"model": "m", "input": "the secret plan", "instructions": "be quiet"}
    assert "secret" not in json.dumps({**describe_request(body), **describe_reply(CHAT)})


def test_content_has_the_parts_of_every_kind_of_item() -> None:
    asked = [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "look"}, {"type": "input_image", "image_url": "x"}],
        },
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "1", "name": "get", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": "cold"},
    ]
    found = describe_content({"input": asked, "instructions": "be kind"}, CHAT)
    messages = json.loads(found["gen_ai.input.messages"])
    assert [one["role"] for one in messages] == ["user", "assistant", "assistant", "tool"]
    assert messages[0]["parts"] == [{"type": "text", "content": "look"}, {"type": "input_image"}]
    assert messages[2]["parts"] == [{"type": "tool_call", "id": "1", "name": "get", "arguments": "{}"}]
    assert json.loads(found["gen_ai.output.messages"])[0]["parts"] == [{"type": "text", "content": "4"}]
    assert json.loads(found["gen_ai.system_instructions"]) == [{"type": "text", "content": "be kind"}]


@pytest.mark.parametrize(
    "reply", [{}, {"usage": 7}, {"usage": {"input_tokens": "7"}}, {"choices": [None]}, {"output": [None, 3]}]
)
def test_an_odd_reply_is_described_as_far_as_it_goes(reply: dict[str, Any]) -> None:
    assert "gen_ai.usage.input_tokens" not in describe_reply(reply)
    assert describe_content({"messages": [None, {"role": "user", "tool_calls": [3]}]}, reply)

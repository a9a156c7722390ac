"""Recorded calls as others read them: tokens in every form, and rLLM's record."""

from __future__ import annotations

from typing import Any

import pytest

from gym.wire import items
from gym.wire.model_calls import CallTokens, rllm_record, tokens_of_reply

TRIPLE = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.5]}
FOUND = CallTokens([1, 2], [3], [-0.5])
STEP = {"token": "token_id:3", "logprob": -0.5}


@pytest.mark.parametrize(
    "reply",
    [
        items.response([items.message("x") | TRIPLE], model="m"),
        {"choices": [{"message": {"role": "assistant", "content": "x", **TRIPLE}}]},
        {"prompt_token_ids": [1, 2], "choices": [{"token_ids": [3], "logprobs": {"content": [{"logprob": -0.5}]}}]},
        {"choices": [{"message": {"prompt_token_ids": [1, 2]}, "logprobs": {"content": [STEP]}}]},
        {"type": "message", "content": [], **TRIPLE},
    ],
    ids=["responses", "message", "return_token_ids", "token_id:N", "anthropic"],
)
def test_tokens_are_found_in_every_form(reply: dict[str, Any]) -> None:
    assert tokens_of_reply(reply) == FOUND


@pytest.mark.parametrize(
    "reply",
    [
        None,
        [],
        {"choices": []},
        {"choices": ["x"]},
        {"choices": [{"logprobs": {"content": [{"token": "Paris", "logprob": -0.5}]}}]},
        {"choices": [{"logprobs": {"content": "x"}, "message": {"generation_token_ids": []}}]},
        {"output": [items.message("x") | TRIPLE | {"generation_token_ids": []}]},
    ],
)
def test_what_has_no_token_ids_has_none(reply: Any) -> None:
    assert tokens_of_reply(reply) == CallTokens()


def recorded(dialect: str, request: Any, reply: Any) -> dict[str, Any]:
    timing = {"id": "t", "dialect": dialect, "status": 200, "seconds": 0.25, "started_at": 5.0}
    return {**timing, **FOUND._asdict(), "request": request, "reply": reply}


def test_a_chat_call_is_a_record_of_rllm() -> None:
    asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    choice = {"message": {"role": "assistant", "content": "yo"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 2, "completion_tokens": 1}
    record = rllm_record("s", recorded("chat_completions", asked, {"choices": [choice], "usage": usage}))
    assert record["messages"] == asked["messages"]
    assert record["response_message"] == choice["message"]
    assert (record["prompt_token_ids"], record["completion_token_ids"], record["logprobs"]) == ([1, 2], [3], [-0.5])
    assert (record["session_id"], record["latency_ms"], record["finish_reason"]) == ("s", 250.0, "stop")
    assert record["token_counts"] == {"prompt": 2, "completion": 1}


def test_calls_of_the_other_dialects_are_written_as_chat() -> None:
    reply = items.response([items.message("yo")], model="m", usage=items.text_usage(2, 1))
    record = rllm_record("s", recorded("responses", {"input": "hi", "instructions": "be kind"}, reply))
    assert [one["role"] for one in record["messages"]] == ["system", "user"]
    assert record["response_message"]["content"] == "yo"
    used = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}}
    content = [{"type": "text", "text": "yo"}, used]
    message = {"content": content, "stop_reason": "tool_use", "usage": {"input_tokens": 2}}
    asked = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
    record = rllm_record("s", recorded("messages", asked, message))
    assert [one["role"] for one in record["messages"]] == ["user"]
    assert record["response_message"]["content"] == "yo"
    assert record["response_message"]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at":1}'}
    assert (record["finish_reason"], record["token_counts"]) == ("tool_calls", {"prompt": 2})


@pytest.mark.parametrize("dialect", ["responses", "messages", "chat_completions", ""])
def test_a_failed_call_is_a_record_too(dialect: str) -> None:
    record = rllm_record("s", recorded(dialect, {"messages": [3], "input": [3]}, {"error": {"kind": "row"}}))
    assert record["response_message"] == {}
    assert record["raw_response"] == {"error": {"kind": "row"}}

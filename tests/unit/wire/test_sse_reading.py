"""Event streams of providers, read back as the replies they add up to."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gym.wire import items
from gym.wire.failures import RolloutError
from gym.wire.sse import completion_events, response_events
from gym.wire.sse_reading import events_to_reply


def chunks(*parts: dict[str, Any]) -> bytes:
    base = {"id": "c1", "object": "chat.completion.chunk", "model": "m"}
    return b"".join(b"data: " + orjson.dumps({**base, **part}) + b"\r\n\r\n" for part in parts) + b"data: [DONE]\n\n"


def delta(finish: str | None = None, more: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish, **(more or {})}]}


def test_what_we_stream_reads_back_as_it_was() -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    message: dict[str, Any] = {"role": "assistant", "content": "hi", "reasoning_content": "hm", "tool_calls": [call]}
    message |= {"prompt_token_ids": [1], "generation_token_ids": [2, 3], "generation_log_probs": [0.0, -1.0]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "token_ids": [2, 3]}
    completion = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    completion |= {"usage": {"prompt_tokens": 1}, "prompt_token_ids": [1]}
    assert events_to_reply(completion_events(completion, usage=True)) == completion


def test_pieces_are_put_together_in_their_order() -> None:
    function = {"name": "lo", "arguments": '{"a"'}
    rest = {"name": "ok", "arguments": ": 1}"}
    stream = chunks(
        {**delta(role="assistant", content=""), "prompt_token_ids": [1, 2]},
        delta(None, {"token_ids": [3], "logprobs": {"content": [{"token": "x"}]}}, content="Hel", reasoning="h"),
        delta(None, {"token_ids": [4, 5], "logprobs": {"content": [{"token": "y"}]}}, content="lo", reasoning="m"),
        delta(tool_calls=[{"index": 0, "id": "a", "type": "function", "function": function}]),
        delta(tool_calls=[{"index": 1, "id": "b", "function": {"name": "z"}}]),
        delta("stop", tool_calls=[{"index": 0, "function": rest}]),
        {"choices": [], "usage": {"prompt_tokens": 2}},
    )
    reply = events_to_reply(b": ping\n\n" + stream)
    [choice] = reply["choices"]
    assert (choice["message"]["content"], choice["message"]["reasoning"]) == ("Hello", "hm")
    assert (choice["token_ids"], choice["logprobs"]) == ([3, 4, 5], {"content": [{"token": "x"}, {"token": "y"}]})
    assert [(one["id"], one["function"]) for one in choice["message"]["tool_calls"]] == [
        ("a", {"name": "look", "arguments": '{"a": 1}'}),
        ("b", {"name": "z", "arguments": ""}),
    ]
    assert (reply["prompt_token_ids"], reply["usage"], reply["object"]) == (
        [1, 2],
        {"prompt_tokens": 2},
        "chat.completion",
    )


def test_of_a_responses_stream_the_last_event_has_it_all() -> None:
    reply = items.response([items.message("hi")], model="m", incomplete="max_output_tokens")
    assert events_to_reply(response_events(reply)) == reply


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (chunks(delta(content="hal")), "ended before the reply was complete"),
        (b"", "ended before the reply was complete"),
        (
            chunks(delta(content="a"), {"error": {"message": "out of memory"}}),
            "sent an error in mid-stream: out of memory",
        ),
        (b'data: {"object": "error", "message": "dead"}\n\n', "dead"),
        (b'data: {"choices": [\n\n', "unexpected type"),
        (chunks({"choices": [{"index": 0, "delta": {"tool_calls": [3]}}]}), "unexpected type"),
    ],
)
def test_half_a_stream_is_a_failure_of_the_model(stream: bytes, words: str) -> None:
    with pytest.raises(RolloutError, match=words) as caught:
        events_to_reply(stream)
    assert (caught.value.kind, caught.value.retryable) == ("model", True)

"""Event streams, read by the parsers that clients use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import orjson
import pytest

from gym.server.asgi import Answer, Call, HotRoutes
from gym.server.testing import running
from gym.wire import items, sse
from gym.wire.anthropic import response_to_message
from gym.wire.completions import response_to_completion

TOKENS = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.1]}


def make_reply(incomplete: str = "") -> dict[str, Any]:
    output = [
        items.reasoning("hm"),
        items.message("Hello, world"),
        items.function_call("f", '{"a":1}', call_id="c1"),
        items.function_call("g", "{}", call_id="c2") | TOKENS,
    ]
    return items.response(output, model="m", usage=items.text_usage(3, 4), incomplete=incomplete)


def events(stream: bytes) -> Iterator[dict[str, Any]]:
    for block in stream.decode().split("\n\n"):
        data = [line[6:] for line in block.splitlines() if line.startswith("data: ")]
        if data and data[0] != "[DONE]":
            yield orjson.loads(data[0])


@asynccontextmanager
async def client_of(stream: bytes) -> AsyncIterator[openai.AsyncOpenAI]:
    """The official client, and a server that answers everything with the stream under test."""

    async def answer(_: Call) -> Answer:
        return Answer(stream, content_type=sse.CONTENT_TYPE)

    paths = ("/v1/responses", "/v1/chat/completions")
    app = HotRoutes(_lifespan, "s", "model", {("POST", path): answer for path in paths})
    async with running(app) as url, openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1") as client:
        yield client


async def _lifespan(_: Any, receive: Any, send: Any) -> None:
    for phase in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{phase}.complete"})


async def test_the_official_client_puts_a_responses_stream_together_again() -> None:
    sent = sse.response_events(make_reply())
    async with client_of(sent) as client, client.responses.stream(model="m", input="x") as stream:
        final = await stream.get_final_response()
    assert final.output_text == "Hello, world"
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call", "function_call"]
    assert final.usage is not None
    assert final.usage.total_tokens == 7


async def test_the_official_client_puts_a_chat_stream_together_again() -> None:
    sent = sse.completion_events(response_to_completion(make_reply(), {}), usage=True)
    asked: Any = [{"role": "user", "content": "x"}]
    async with client_of(sent) as client, client.chat.completions.stream(model="m", messages=asked) as stream:
        final = await stream.get_final_completion()
    [choice] = final.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Hello, world"
    calls = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls or ()]
    assert calls == [("c1", "f", '{"a":1}'), ("c2", "g", "{}")]
    assert final.usage is not None
    assert final.usage.total_tokens == 7


def test_a_responses_stream_is_numbered_and_ends_with_the_whole_reply() -> None:
    reply = make_reply()
    sent = list(events(sse.response_events(reply)))
    assert [event["sequence_number"] for event in sent] == list(range(len(sent)))
    assert [event["type"] for event in sent[:2]] == ["response.created", "response.in_progress"]
    assert sent[0]["response"]["output"] == []
    assert sent[-1] == {"type": "response.completed", "response": reply, "sequence_number": len(sent) - 1}


@pytest.mark.parametrize("status", ["incomplete", "failed"])
def test_a_responses_stream_ends_with_the_status_of_its_reply(status: str) -> None:
    last = list(events(sse.response_events(make_reply() | {"status": status})))[-1]
    assert last["type"] == f"response.{status}"


def test_a_refusal_is_streamed_as_a_refusal() -> None:
    refusal = items.message("") | {"content": [{"type": "refusal", "refusal": "no"}]}
    sent = list(events(sse.response_events(items.response([refusal], model="m"))))
    assert [event["delta"] for event in sent if event["type"] == "response.refusal.delta"] == ["no"]


def test_a_chat_stream_carries_token_fields_and_ends_with_done() -> None:
    stream = sse.completion_events(response_to_completion(make_reply(), {}))
    deltas = [event["choices"][0]["delta"] for event in events(stream)]
    assert any(delta.get("generation_token_ids") == [3] for delta in deltas)
    assert stream.endswith(b"data: [DONE]\n\n")
    assert not any("usage" in event for event in events(stream))


def test_a_messages_stream_adds_up_to_its_message() -> None:
    message = response_to_message(make_reply(), {})
    sent = list(events(sse.message_events(message)))
    assert [sent[0]["type"], sent[-1]["type"]] == ["message_start", "message_stop"]
    assert _put_together(sent) == message["content"]
    assert sent[-2]["delta"]["stop_reason"] == "tool_use"
    assert sent[-2]["usage"]["output_tokens"] == 4


def _put_together(sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    for event in sent:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        delta = event.get("delta") or {}
        for key in ("text", "thinking", "signature"):
            if delta.get("type") == f"{key}_delta":
                blocks[-1][key] += delta[key]
        if delta.get("type") == "input_json_delta":
            blocks[-1]["input"] = orjson.loads(delta["partial_json"])
    return blocks

"""A finished reply as the event stream of its dialect, for clients that always stream.

Every delta a client may wait for is there, once; what the pieces add up to is the reply itself, extra fields included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from gym.wire.items import Item

CONTENT_TYPE = b"text/event-stream; charset=utf-8"
Event = dict[str, Any]


def response_events(reply: Mapping[str, Any]) -> bytes:
    """Responses: created, in_progress, each item opened, filled and closed, then completed, incomplete or failed."""
    numbered = ({**event, "sequence_number": number} for number, event in enumerate(_response_events(reply)))
    return _named(numbered)


def completion_events(completion: Mapping[str, Any], *, usage: bool = False) -> bytes:
    """Chat Completions: role, text, calls, finish; the usage chunk only when `stream_options.include_usage` asked."""
    base = {key: value for key, value in completion.items() if key not in ("choices", "usage", "object")}
    base["object"] = "chat.completion.chunk"
    lines = [
        {**base, "choices": [chunk]} for choice in completion.get("choices") or () for chunk in _choice_chunks(choice)
    ]
    if usage:
        lines.append({**base, "choices": [], "usage": completion.get("usage")})
    return b"".join(b"data: " + orjson.dumps(line) + b"\n\n" for line in lines) + b"data: [DONE]\n\n"


def message_events(message: Mapping[str, Any]) -> bytes:
    """Messages: message_start, each block opened, filled, closed; message_delta with the stop reason, message_stop."""
    return _named(_message_events(message))


def _named(events: Iterable[Event]) -> bytes:
    return b"".join(b"event: %s\ndata: %s\n\n" % (one["type"].encode(), orjson.dumps(one)) for one in events)


def _response_events(reply: Mapping[str, Any]) -> Iterator[Event]:
    opening = {**reply, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None, "error": None}
    yield {"type": "response.created", "response": opening}
    yield {"type": "response.in_progress", "response": opening}
    for index, item in enumerate(reply.get("output") or ()):
        place = {"output_index": index, "item_id": item.get("id") or ""}
        yield {"type": "response.output_item.added", "output_index": index, "item": _opened(item)}
        yield from _item_events(item, place)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    status = reply.get("status")
    ending = status if status in ("incomplete", "failed") else "completed"
    yield {"type": f"response.{ending}", "response": dict(reply)}


def _opened(item: Item) -> Item:
    """An item before its first delta."""
    empty: Item = {}
    if item.get("type") == "function_call":
        empty = {"arguments": "", "status": "in_progress"}
    elif item.get("type", "message") == "message":
        empty = {"content": [], "status": "in_progress"}
    elif item.get("type") == "reasoning":
        empty = {"summary": []}
    return {**item, **empty}


def _item_events(item: Item, place: Event) -> Iterator[Event]:
    kind = item.get("type", "message")
    if kind == "function_call":
        arguments = item.get("arguments") or ""
        base = "response.function_call_arguments"
        yield {"type": f"{base}.delta", **place, "delta": arguments}
        yield {"type": f"{base}.done", **place, "arguments": arguments, "name": item.get("name")}
    elif kind == "message" and isinstance(item.get("content"), list):
        for index, part in enumerate(item["content"]):
            yield from _part_events(part, {**place, "content_index": index})
    elif kind == "reasoning":
        for index, part in enumerate(item.get("summary") or ()):
            yield from _summary_events(part, {**place, "summary_index": index})


def _part_events(part: Item, place: Event) -> Iterator[Event]:
    field, kind = ("refusal", "refusal") if part.get("type") == "refusal" else ("text", "output_text")
    text = part.get(field) or ""
    extra: Event = {} if field == "refusal" else {"logprobs": []}
    yield {"type": "response.content_part.added", **place, "part": {**part, field: ""}}
    yield {"type": f"response.{kind}.delta", **place, "delta": text, **extra}
    yield {"type": f"response.{kind}.done", **place, field: text, **extra}
    yield {"type": "response.content_part.done", **place, "part": part}


def _summary_events(part: Item, place: Event) -> Iterator[Event]:
    text = part.get("text") or ""
    yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
    yield {"type": "response.reasoning_summary_text.delta", **place, "delta": text}
    yield {"type": "response.reasoning_summary_text.done", **place, "text": text}
    yield {"type": "response.reasoning_summary_part.done", **place, "part": part}


def _choice_chunks(choice: Item) -> Iterator[Event]:
    """One chunk a field: text first, then each call, then the finish reason with whatever else the choice carried."""
    index, message = choice.get("index", 0), choice.get("message") or {}
    extras = {key: value for key, value in choice.items() if key not in ("index", "message", "finish_reason")}
    fields = {key: value for key, value in message.items() if key not in ("role", "tool_calls") and value is not None}

    def chunk(delta: Item, finish: Any = None, **more: Any) -> Event:
        return {"index": index, "delta": delta, "finish_reason": finish, **more}

    yield chunk({"role": message.get("role") or "assistant"})
    if fields:
        yield chunk(fields)
    for number, call in enumerate(message.get("tool_calls") or ()):
        yield chunk({"tool_calls": [{"index": number, **call}]})
    yield chunk({}, choice.get("finish_reason"), **extras)


def _message_events(message: Mapping[str, Any]) -> Iterator[Event]:
    usage = message.get("usage") or {}
    opening = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 0}}
    yield {"type": "message_start", "message": opening}
    for index, block in enumerate(message.get("content") or ()):
        yield {"type": "content_block_start", "index": index, "content_block": _opened_block(block)}
        for delta in _block_deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": message.get("stop_reason"), "stop_sequence": message.get("stop_sequence")}
    yield {"type": "message_delta", "delta": stop, "usage": usage}
    yield {"type": "message_stop"}


def _opened_block(block: Item) -> Item:
    empty: Item = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}
    return {**block, **empty.get(block.get("type", ""), {})}


def _block_deltas(block: Item) -> Iterator[Event]:
    kind = block.get("type")
    if kind == "text":
        yield {"type": "text_delta", "text": block.get("text") or ""}
    elif kind == "thinking":
        yield {"type": "thinking_delta", "thinking": block.get("thinking") or ""}
        if block.get("signature"):
            yield {"type": "signature_delta", "signature": block["signature"]}
    elif kind == "tool_use":
        yield {"type": "input_json_delta", "partial_json": orjson.dumps(block.get("input") or {}).decode()}

"""The Messages dialect as a Responses model serves it: requests become Responses requests, replies messages.

Text, images, tool use and results, thinking and system survive both ways; the rest is a `row` error with its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from gym.wire import items
from gym.wire.chat import last_tokens, row_error
from gym.wire.failures import RolloutError, reading
from gym.wire.items import Item
from gym.wire.thoughts import items_thoughts

# `thinking` budgets are dropped: Responses has no such field, and models that cannot reason refuse an effort.
MESSAGES_ONLY = frozenset(
    ["max_tokens", "messages", "stop_sequences", "stream", "system", "thinking", "tool_choice", "tools"]
)
ERRORS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
BYTES_PER_TOKEN, TOKENS_PER_IMAGE = 4, 1500
CHOICES = {"auto": "auto", "any": "required", "none": "none"}
Blocks = Iterator[tuple[Item, str]]


@reading("row", "the request")
def messages_to_responses(body: Mapping[str, Any]) -> dict[str, Any]:
    """Reads a request."""
    params = {key: value for key, value in body.items() if key not in MESSAGES_ONLY and value is not None}
    params["input"] = [
        item
        for index, message in enumerate(body.get("messages") or ())
        for item in _message_to_input(message, f"messages[{index}]")
    ]
    if body.get("system"):
        params["instructions"] = _system_text(body["system"])
    if body.get("max_tokens") is not None:
        params["max_output_tokens"] = body["max_tokens"]
    if body.get("stop_sequences"):
        params["stop"] = body["stop_sequences"]
    if body.get("tools"):
        params["tools"] = [_tool_to_responses(tool, f"tools[{index}]") for index, tool in enumerate(body["tools"])]
    return params | _choice_to_responses(body.get("tool_choice"))


@reading("model", "the reply")
def response_to_message(reply: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Writes a reply."""
    output = reply.get("output") or []
    content = [block for item in output if isinstance(item, dict) for block in _item_to_blocks(item)]
    return {
        "id": str(reply.get("id") or items.new_id("msg")),
        "type": "message",
        "role": "assistant",
        "model": str(reply.get("model") or body.get("model") or ""),
        "content": content,
        "stop_reason": _stop_reason(reply, content),
        "stop_sequence": None,
        "usage": _usage_to_messages(reply.get("usage")),
        **last_tokens(output),
    }


def error_to_message(error: RolloutError) -> dict[str, Any]:
    """A failure as clients of this dialect read it, the contract's own fields among theirs."""
    kind = ERRORS.get(error.status) or ("invalid_request_error" if error.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, **error.to_dict()}}


def estimate_tokens(params: Mapping[str, Any]) -> int:
    """Of a Responses request: a token for four bytes of its texts, and a usual number for each image."""
    texts, images = [params.get("instructions") or "", *map(orjson.dumps, params.get("tools") or ())], 0
    for item in items.input_items(params.get("input")):
        content = item.get("content")
        parts = content if isinstance(content, list) else [item]
        images += sum(part.get("type") == "input_image" for part in parts)
        texts += [orjson.dumps(part) for part in parts if part.get("type") != "input_image"]
    return max(1, sum(map(len, texts)) // BYTES_PER_TOKEN) + images * TOKENS_PER_IMAGE


def _message_to_input(message: Any, where: str) -> Iterator[Item]:
    """A message's blocks become items; neighbouring text and image blocks share one message."""
    role = message.get("role") if isinstance(message, dict) else None
    if role not in ("user", "assistant", "system"):
        raise row_error(f"{where}.role: expected user or assistant, found {role!r}")
    content = message.get("content")
    if isinstance(content, str):
        yield items.message(content, role=role)
        return
    parts: list[Item] = []
    for block, place in _blocks(content, f"{where}.content"):
        part = _block_to_part(block, role)
        if part is not None:
            parts.append(part)
            continue
        if parts:
            yield _message_of(parts, role)
            parts = []
        yield from _block_to_items(block, place)
    if parts:
        yield _message_of(parts, role)


def _message_of(parts: list[Item], role: str) -> Item:
    return items.message("", role=role) | {"content": parts}


def _blocks(content: Any, where: str) -> Blocks:
    for index, block in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(block, dict):
            raise row_error(f"{where}[{index}]: a content block is an object")
        yield block, f"{where}[{index}]"


def _block_to_part(block: Item, role: str) -> Item | None:
    kind = block.get("type")
    if kind == "text":
        text = str(block.get("text") or "")
        if role == "assistant":
            return {"type": "output_text", "text": text, "annotations": []}
        return {"type": "input_text", "text": text}
    if kind == "image":
        return {"type": "input_image", "image_url": _image_url(block.get("source") or {}), "detail": "auto"}
    return None


def _image_url(source: Mapping[str, Any]) -> str:
    if source.get("type") == "base64":
        return f"data:{source.get('media_type')};base64,{source.get('data')}"
    return str(source.get("url") or "")


def _block_to_items(block: Item, where: str) -> Iterator[Item]:
    kind = block.get("type")
    if kind == "tool_use":
        arguments = orjson.dumps(block.get("input") or {}).decode()
        yield items.function_call(str(block.get("name") or ""), arguments, call_id=str(block.get("id") or ""))
    elif kind == "tool_result":
        yield items.function_call_output(str(block.get("tool_use_id") or ""), _result_text(block.get("content"), where))
    elif kind == "thinking":
        yield items.reasoning(str(block.get("thinking") or ""))
    elif kind != "redacted_thinking":  # that one only its own provider can read
        raise row_error(f"{where}: a block of type `{kind}` is not known")


def _result_text(content: Any, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for block, place in _blocks(content, f"{where}.content"):
        if block.get("type") != "text":
            raise row_error(f"{place}: a tool's result is taken as text only, found `{block.get('type')}`")
        texts.append(str(block.get("text") or ""))
    return "".join(texts)


def _system_text(system: Any) -> str:
    if isinstance(system, str):
        return system
    return "\n\n".join(str(block.get("text") or "") for block, _ in _blocks(system, "system"))


def _tool_to_responses(tool: Any, where: str) -> Item:
    if not isinstance(tool, dict) or tool.get("type", "custom") != "custom" or not tool.get("name"):
        kind = tool.get("type") if isinstance(tool, dict) else type(tool).__name__
        raise row_error(f"{where}: only tools with a name and an input_schema can be offered, found type `{kind}`")
    asked = {"type": "function", "name": tool["name"], "parameters": tool.get("input_schema") or {}, "strict": False}
    return asked | ({"description": tool["description"]} if tool.get("description") else {})


def _choice_to_responses(choice: Any) -> dict[str, Any]:
    if not isinstance(choice, dict):
        return {}
    kind = str(choice.get("type"))
    asked: dict[str, Any] = {"parallel_tool_calls": False} if choice.get("disable_parallel_tool_use") else {}
    if kind == "tool":
        return asked | {"tool_choice": {"type": "function", "name": choice.get("name")}}
    return asked | {"tool_choice": CHOICES.get(kind, "auto")}


def _item_to_blocks(item: Item) -> Iterator[Item]:
    kind = item.get("type", "message")
    if kind == "reasoning":
        for thought in items_thoughts([item]):
            yield {"type": "thinking", "thinking": thought, "signature": ""}
    elif kind == "function_call":
        call_id = item.get("call_id") or item.get("id") or ""
        yield {"type": "tool_use", "id": call_id, "name": item.get("name") or "", "input": _call_input(item)}
    elif kind == "message" and (text := items.item_text(item)):
        yield {"type": "text", "text": text}


def _call_input(item: Item) -> dict[str, Any]:
    """Arguments as an object; what the model wrote instead stays visible."""
    raw = item.get("arguments") or "{}"
    try:
        parsed = orjson.loads(raw)
    except orjson.JSONDecodeError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"invalid_arguments": raw}


def _stop_reason(reply: Mapping[str, Any], content: list[Item]) -> str:
    reason = (reply.get("incomplete_details") or {}).get("reason")
    if reason:
        return "refusal" if reason == "content_filter" else "max_tokens"
    return "tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn"


def _usage_to_messages(usage: Any) -> dict[str, int]:
    counts = usage if isinstance(usage, dict) else {}
    cached = (counts.get("input_tokens_details") or {}).get("cached_tokens") or 0
    fresh = max((counts.get("input_tokens") or 0) - cached, 0)  # this dialect counts cached tokens apart
    return {
        "input_tokens": fresh,
        "output_tokens": counts.get("output_tokens") or 0,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": 0,
    }

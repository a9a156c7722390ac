"""Chat Completions as a Responses model serves them: requests read as Responses requests, replies written as chat.

The other direction is in `chat`; both keep unknown parameters and token fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gym.wire import items
from gym.wire.chat import item_to_call, last_tokens, message_to_items, refusals, row_error
from gym.wire.failures import reading
from gym.wire.items import Item
from gym.wire.thoughts import items_thoughts

CHAT_ONLY = frozenset(
    [
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "n",
        "reasoning_effort",
        "response_format",
        "stream",
        "stream_options",
        "tool_choice",
        "tools",
    ]
)


@reading("row", "the request")
def chat_to_responses(body: Mapping[str, Any]) -> dict[str, Any]:
    """Reads a request."""
    if body.get("n") not in (None, 1):
        raise row_error(f"n: {body['n']} answers were asked for; a rollout has one")
    params = {key: value for key, value in body.items() if key not in CHAT_ONLY and value is not None}
    params["input"] = [
        item
        for index, message in enumerate(body.get("messages") or ())
        for item in _message_to_input(message, f"messages[{index}]")
    ]
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if limit is not None:
        params["max_output_tokens"] = limit
    if body.get("reasoning_effort"):
        params["reasoning"] = {"effort": body["reasoning_effort"]}
    if body.get("response_format"):
        params["text"] = {"format": _format_to_responses(body["response_format"])}
    return params | _tools_to_responses(body)


@reading("model", "the reply")
def response_to_completion(reply: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """Writes a reply. The reasoning goes into `reasoning_content`, beside the text."""
    output = reply.get("output") or []
    message: dict[str, Any] = {"role": "assistant", "content": items.output_text(output) or None, "refusal": None}
    message["refusal"] = "".join(refusals(output)) or None
    if thoughts := "\n".join(items_thoughts(output)):
        message["reasoning_content"] = thoughts
    if calls := [item_to_call(item) for item in items.function_calls(output)]:
        message["tool_calls"] = calls
    elif message["content"] is None and message["refusal"] is None:
        message["content"] = ""
    message.update(last_tokens(output))
    return {
        "id": str(reply.get("id") or items.new_id("chatcmpl")),
        "object": "chat.completion",
        "created": int(reply.get("created_at") or 0),
        "model": str(reply.get("model") or body.get("model") or ""),
        "choices": [{"index": 0, "message": message, "finish_reason": _finish(reply, bool(calls)), "logprobs": None}],
        "usage": usage_to_chat(reply.get("usage")),
    }


def usage_to_chat(usage: Any) -> dict[str, Any] | None:
    if not isinstance(usage, dict):
        return None
    counts = {
        "prompt_tokens": usage.get("input_tokens") or 0,
        "completion_tokens": usage.get("output_tokens") or 0,
        "total_tokens": usage.get("total_tokens") or 0,
    }
    for ours, theirs in (("input_tokens_details", "prompt"), ("output_tokens_details", "completion")):
        if usage.get(ours):
            counts[f"{theirs}_tokens_details"] = usage[ours]
    return counts


def _message_to_input(message: Any, where: str) -> list[Item]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise row_error(f"{where}: a message is an object with a role")
    role, content = message["role"], message.get("content")
    if role == "assistant":
        empty = not content and not message.get("tool_calls") and not message.get("refusal")
        return [] if empty else message_to_items(message)
    if isinstance(content, list):
        content = [_part_to_responses(part, f"{where}.content[{index}]") for index, part in enumerate(content)]
    if role in ("tool", "function"):
        return [{"type": "function_call_output", "call_id": message.get("tool_call_id") or "", "output": content or ""}]
    return [{"type": "message", "role": role, "content": content or ""}]


def _part_to_responses(part: Any, where: str) -> Item:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("text", "input_text"):
        return {"type": "input_text", "text": part.get("text") or ""}
    if kind == "image_url":
        image = part.get("image_url")
        url, detail = (image.get("url"), image.get("detail")) if isinstance(image, dict) else (image, None)
        return {"type": "input_image", "image_url": url, "detail": detail or "auto"}
    if kind == "video_url":
        video = part.get("video_url")
        return {"type": "input_video", "video_url": video.get("url") if isinstance(video, dict) else video}
    if kind in ("input_audio", "file"):
        return dict(part)
    raise row_error(f"{where}: a part of type `{kind}` is not known")


def _tools_to_responses(body: Mapping[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    tools = [tool for tool in body.get("tools") or () if isinstance(tool, dict)]
    if tools:
        asked["tools"] = [
            {"strict": False, **tool["function"], "type": "function"}
            if isinstance(tool.get("function"), dict)
            else tool
            for tool in tools
        ]
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and isinstance(choice.get("function"), dict):
        choice = {"type": "function", "name": choice["function"].get("name")}
    if choice is not None:
        asked["tool_choice"] = choice
    return asked


def _format_to_responses(shape: Mapping[str, Any]) -> dict[str, Any]:
    inner = shape.get("json_schema")
    return {**inner, "type": "json_schema"} if isinstance(inner, dict) else dict(shape)


def _finish(reply: Mapping[str, Any], calls: bool) -> str:
    reason = (reply.get("incomplete_details") or {}).get("reason")
    if reason:
        return "content_filter" if reason == "content_filter" else "length"
    return "tool_calls" if calls else "stop"

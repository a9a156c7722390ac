"""Chat messages of other tools' logs as the items of a rollout. What has no place in them stays out, nothing raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from gym.wire.metrics import ROLLOUT, TASK


def split_chat(messages: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(what was asked, what the policy and its tools then said)."""
    chat = [one for one in messages if isinstance(one, dict)] if isinstance(messages, list) else []
    begin = next((index for index, one in enumerate(chat) if one.get("role") == "assistant"), len(chat))
    return asked_items(chat[:begin]), [item for one in chat[begin:] for item in message_items(one)]


def asked_items(chat: Any) -> list[dict[str, Any]]:
    if isinstance(chat, str):
        return [{"role": "user", "content": chat}]
    return [{"role": str(one.get("role") or "user"), "content": _text(one.get("content"))} for one in chat or ()]


def message_items(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    role, text = message.get("role"), _text(message.get("content"))
    if role == "tool":
        yield {"type": "function_call_output", "call_id": str(message.get("tool_call_id") or ""), "output": text}
        return
    if thoughts := _thoughts(message):
        yield {"type": "reasoning", "summary": [{"type": "summary_text", "text": thoughts}]}
    calls = message.get("tool_calls")
    if text or not calls:
        content = [{"type": "output_text", "text": text}] if role == "assistant" else text
        yield {"type": "message", "role": str(role or "assistant"), "content": content}
    yield from (_call_item(call) for call in calls or () if isinstance(calls, list))


def make_row(task: int, repeat: int, asked: list[dict[str, Any]], response: dict[str, Any]) -> dict[str, Any]:
    """The beginning of a rollout; what a verifier added comes behind it."""
    params = {"input": asked, **({"tools": response.pop("tools")} if response.get("tools") else {})}
    return {"responses_create_params": params, TASK: task, ROLLOUT: repeat, "response": response}


def _call_item(call: Any) -> dict[str, Any]:
    """Some write a call as JSON in a string, some put name and arguments below `function`."""
    if isinstance(call, str):
        call = _parsed(call)
    call = call if isinstance(call, dict) else {}
    function = call.get("function")
    inner = function if isinstance(function, dict) else call
    name = function if isinstance(function, str) else inner.get("name")
    arguments = inner.get("arguments", call.get("arguments"))
    spelled = arguments if isinstance(arguments, str) else orjson.dumps(arguments or {}, default=str).decode()
    return {
        "type": "function_call",
        "call_id": str(call.get("id") or ""),
        "name": str(name or "tool"),
        "arguments": spelled,
    }


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


def _thoughts(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    parts = [one.get("reasoning") for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    found = [one for one in (message.get("reasoning_content"), *parts) if isinstance(one, str) and one]
    return "\n\n".join(found)


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return {"name": text[:200]}

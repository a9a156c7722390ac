"""Responses items and replies as they travel: plain dicts, read tolerantly, made whole.

Items stay dicts on purpose: whatever a peer adds (token ids, log-probs, `routed_experts`) must come out as it went in.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Item = dict[str, Any]


def new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"


def message(text: str, *, role: str = "assistant") -> Item:
    """A finished message; an assistant's text is `output_text`, everyone else's is `input_text`."""
    if role != "assistant":
        return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": new_id("msg"), "role": role, "status": "completed", "content": [part]}


def function_call(name: str, arguments: str, *, call_id: str = "") -> Item:
    call = call_id or new_id("call")
    return {
        "type": "function_call",
        "id": call,
        "call_id": call,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def function_call_output(call_id: str, output: str) -> Item:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def reasoning(text: str) -> Item:
    return {"type": "reasoning", "id": new_id("rs"), "summary": [{"type": "summary_text", "text": text}]}


def response(
    output: Sequence[Item],
    *,
    model: str,
    params: Mapping[str, Any] | None = None,
    usage: Mapping[str, Any] | None = None,
    incomplete: str = "",
) -> dict[str, Any]:
    """A whole Responses reply: every field the OpenAI schema requires is there."""
    asked = {key: value for key, value in (params or {}).items() if value is not None}
    return {
        "id": new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "incomplete" if incomplete else "completed",
        "incomplete_details": {"reason": incomplete} if incomplete else None,
        "error": None,
        "model": model,
        "output": list(output),
        "usage": usage,
        "instructions": asked.get("instructions"),
        "metadata": asked.get("metadata") or {},
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        "temperature": asked.get("temperature"),
        "top_p": asked.get("top_p"),
        "max_output_tokens": asked.get("max_output_tokens"),
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools") or [],
    }


def text_usage(input_tokens: int, output_tokens: int) -> dict[str, Any]:
    return {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }


def add_usage(total: dict[str, Any] | None, one: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The sum of two usages, details included; a detail that neither has stays out."""
    if not one:
        return total
    merged = dict(total or {})
    for key, value in one.items():
        if isinstance(value, Mapping):
            merged[key] = add_usage(merged.get(key), value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            merged[key] = (merged.get(key) or 0) + value
        else:
            merged.setdefault(key, value)
    return merged


def is_message(item: Any, role: str = "assistant") -> bool:
    """A message has `type: message`, or no type at all (the short form of an input)."""
    return isinstance(item, dict) and item.get("type", "message") == "message" and item.get("role") == role


def item_text(item: Any, separator: str = "") -> str:
    """The text of a message in either form of its content; a refusal or an image has none."""
    content = item.get("content") if isinstance(item, dict) else None
    if isinstance(content, str):
        return content
    return separator.join(_part_texts(content))


def output_text(output: Any) -> str:
    """All `output_text` parts of all messages, joined with nothing: what `response.output_text` gives."""
    return "".join(item_text(item) for item in _items(output) if is_message(item))


def joined_text(output: Any) -> str:
    """All texts of all messages, each on lines of its own."""
    texts = (item_text(item, "\n") for item in _items(output) if is_message(item))
    return "\n".join(filter(None, texts)).strip()


def last_assistant_text(output: Any) -> str:
    """The text of the last assistant message; empty when there is none."""
    texts = [item_text(item) for item in _items(output) if is_message(item)]
    return texts[-1] if texts else ""


def last_user_text(value: Any) -> str:
    """The text of the last user message of an `input`; empty when there is none."""
    texts = [item_text(item) for item in input_items(value) if is_message(item, "user")]
    return texts[-1].strip() if texts else ""


def are_objects(value: Any) -> bool:
    """Whether it is a list of objects, as an output and the choices of a completion are."""
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def function_calls(output: Any) -> list[Item]:
    return [item for item in _items(output) if item.get("type") == "function_call"]


def input_items(value: Any) -> list[Item]:
    """`input` as items: a plain string is one user message."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return list(_items(value))


def _items(output: Any) -> Iterable[Item]:
    return (item for item in output if isinstance(item, dict)) if isinstance(output, list) else ()


def _part_texts(content: Any) -> Iterator[str]:
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict) and part.get("type") in ("output_text", "input_text", "text"):
            text = part.get("text")
            if isinstance(text, str):
                yield text

"""A model's call, a tool's and an agent's in the words of OpenTelemetry's GenAI conventions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gym.wire.json_text import write_any_json

Attributes = dict[str, Any]
PROVIDER: Final = "compose_gym"
_REQUEST: Final = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "top_k": "gen_ai.request.top_k",
    "seed": "gen_ai.request.seed",
    "max_output_tokens": "gen_ai.request.max_tokens",
    "max_completion_tokens": "gen_ai.request.max_tokens",
    "max_tokens": "gen_ai.request.max_tokens",
    "frequency_penalty": "gen_ai.request.frequency_penalty",
    "presence_penalty": "gen_ai.request.presence_penalty",
}


def describe_request(body: Mapping[str, Any]) -> Attributes:
    """Of a Responses request or of a chat's."""
    found: Attributes = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": PROVIDER}
    if isinstance(model := body.get("model"), str) and model:
        found["gen_ai.request.model"] = model
    for field, name in _REQUEST.items():
        if _is_number(value := body.get(field)):
            found[name] = value
    return found


def describe_reply(reply: Mapping[str, Any]) -> Attributes:
    """`Usage` has other names in a chat; both are read."""
    found: Attributes = {}
    if isinstance(model := reply.get("model"), str) and model:
        found["gen_ai.response.model"] = model
    if isinstance(identity := reply.get("id"), str) and identity:
        found["gen_ai.response.id"] = identity
    usage = reply.get("usage")
    if isinstance(usage, Mapping):
        for ours, theirs in (("input", "prompt"), ("output", "completion")):
            count = usage.get(f"{ours}_tokens", usage.get(f"{theirs}_tokens"))
            if _is_number(count):
                found[f"gen_ai.usage.{ours}_tokens"] = count
    if reasons := _finish_reasons(reply):
        found["gen_ai.response.finish_reasons"] = reasons
    return found


def describe_content(body: Mapping[str, Any], reply: Mapping[str, Any]) -> Attributes:
    """What was asked and answered. Only for who asked for it: `telemetry: {content: true}`."""
    asked = body.get("input", body.get("messages"))
    said = reply.get("output")
    if not isinstance(said, list):
        choices = reply.get("choices")
        said = [one.get("message") for one in choices if isinstance(one, Mapping)] if isinstance(choices, list) else []
    found: Attributes = {
        "gen_ai.input.messages": _json(_messages(asked)),
        "gen_ai.output.messages": _json(_messages(said)),
    }
    if isinstance(instructions := body.get("instructions"), str) and instructions:
        found["gen_ai.system_instructions"] = _json([{"type": "text", "content": instructions}])
    return found


def describe_tool(name: str) -> Attributes:
    return {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.type": "function"}


def describe_agent(name: str) -> Attributes:
    return {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name, "gen_ai.provider.name": PROVIDER}


def _finish_reasons(reply: Mapping[str, Any]) -> list[str]:
    choices = reply.get("choices")
    if isinstance(choices, list):
        return [
            str(one.get("finish_reason")) for one in choices if isinstance(one, Mapping) and one.get("finish_reason")
        ]
    cut = reply.get("incomplete_details")
    if isinstance(cut, Mapping) and isinstance(cut.get("reason"), str):
        return [cut["reason"]]
    output = reply.get("output")
    called = isinstance(output, list) and any(
        isinstance(one, Mapping) and one.get("type") == "function_call" for one in output
    )
    return ["tool_calls" if called else "stop"] if isinstance(output, list) else []


def _messages(items: Any) -> list[dict[str, Any]]:
    if isinstance(items, str):
        return [{"role": "user", "parts": [_text(items)]}]
    return [_message(one) for one in items if isinstance(one, Mapping)] if isinstance(items, list) else []


def _message(item: Mapping[str, Any]) -> dict[str, Any]:
    """A Responses item, or a message of a chat."""
    kind = item.get("type")
    if kind == "function_call":
        part = {
            "type": "tool_call",
            "id": item.get("call_id"),
            "name": item.get("name"),
            "arguments": item.get("arguments"),
        }
        return {"role": "assistant", "parts": [part]}
    if kind == "function_call_output":
        part = {"type": "tool_call_response", "id": item.get("call_id"), "response": item.get("output")}
        return {"role": "tool", "parts": [part]}
    if kind == "reasoning":
        said = [one.get("text", "") for one in item.get("summary") or () if isinstance(one, Mapping)]
        return {"role": "assistant", "parts": [{"type": "reasoning", "content": "\n".join(map(str, said))}]}
    return {"role": str(item.get("role") or "assistant"), "parts": [*_parts(item.get("content")), *_calls(item)]}


def _parts(content: Any) -> Iterable[dict[str, Any]]:
    if isinstance(content, str):
        yield _text(content)
    for one in content if isinstance(content, list) else ():
        if isinstance(one, Mapping) and isinstance(one.get("text"), str):
            yield _text(one["text"])
        elif isinstance(one, Mapping):
            yield {"type": str(one.get("type") or "unknown")}  # a picture stays where it is


def _calls(message: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    calls = message.get("tool_calls")
    for one in calls if isinstance(calls, list) else ():
        named = one.get("function") if isinstance(one, Mapping) else None
        if isinstance(named, Mapping):
            yield {
                "type": "tool_call",
                "id": one.get("id"),
                "name": named.get("name"),
                "arguments": named.get("arguments"),
            }


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _json(value: Any) -> str:
    return write_any_json(value).decode("utf-8", "replace")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)

"""A conversation that is over, as the package's functions expect one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import verifiers as vf
from verifiers.types import RolloutTiming
from verifiers.utils.message_utils import normalize_messages

from gym.wire.chat import output_to_messages
from gym.wire.failures import RolloutError


def as_messages(items: Any) -> list[dict[str, Any]]:
    return [plain(one) for one in output_to_messages(items)]


def plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Texts as texts, calls without the endpoint's envelope."""
    content = message.get("content")
    if isinstance(content, list) and all(one.get("type") == "text" for one in content):
        content = "".join(str(one.get("text", "")) for one in content)
    calls = [{"id": one["id"], **one["function"]} for one in message.get("tool_calls") or ()]
    return {**message, "content": content or "", **({"tool_calls": calls} if calls else {})}


def make_state(example: Mapping[str, Any], said: list[dict[str, Any]]) -> vf.State:
    state = vf.State(input=dict(example))
    state["prompt"] = _conversation(example.get("prompt") or [], "example.prompt")
    state["completion"] = _conversation(said, "response")
    state["task"] = dict(example)
    state["trajectory"] = [{"completion": [one]} for one in said if one.get("role") == "assistant"]
    state["timing"] = RolloutTiming(start_time=time.time())
    state["is_completed"], state["is_truncated"] = True, False
    return state


def _conversation(messages: Any, field: str) -> Any:
    try:
        return normalize_messages(messages, field_name=field)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RolloutError("row", f"{field}: no conversation of verifiers: {error}") from None

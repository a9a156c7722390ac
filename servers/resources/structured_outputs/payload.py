"""What a tool call carries as the answer."""

from __future__ import annotations

import json
from typing import Any

from gym.server import VerifyRequest

MAX_MESSAGE = 200


class NoPayload(Exception):
    """The tool call that should carry the answer is not there; `kind` as replies name it."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def read_payload(rollout: VerifyRequest, tool_name: str | None, key: str | None) -> Any:
    """The arguments of the one tool call there should be, or what they hold under the row's key."""
    failure = (rollout.response.model_extra or {}).get("error")
    if failure:
        raise NoPayload("api_error", str(failure)[:MAX_MESSAGE])
    calls = rollout.function_calls
    if not calls:
        raise NoPayload("missing_tool_call", "No tool was called")
    if len(calls) > 1:
        raise NoPayload("multiple_tool_calls", f"One tool call was expected, not {len(calls)}")
    name = calls[0].get("name")
    if tool_name and name != tool_name:
        raise NoPayload("wrong_tool_name", f"A call of {tool_name!r} was expected, not of {name!r:.60}")
    arguments = read_arguments(calls[0].get("arguments"))
    if not key:
        return arguments
    if not isinstance(arguments, dict) or key not in arguments:
        raise NoPayload("missing_tool_payload_key", f"The arguments have no {key!r}")
    return arguments[key]


def read_arguments(arguments: Any) -> Any:
    if isinstance(arguments, dict):
        return arguments
    if not isinstance(arguments, str):
        raise NoPayload("tool_arguments_parse_error", f"arguments should be a text, not {arguments!r:.60}")
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError) as error:
        raise NoPayload("tool_arguments_parse_error", f"{type(error).__name__}: {str(error)[:MAX_MESSAGE]}") from None

"""A rollout as a conversation: what it was asked, what it said, the tools it had, the way trainers read them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from pydantic_core import from_json

from gym.collect.study.recorded import Recorded
from gym.data.row_parsing import PARAMS
from gym.errors import UserError
from gym.wire.chat import responses_to_chat
from gym.wire.deep_values import write_cut
from gym.wire.failures import RolloutError
from gym.wire.items import Item, input_items

ArgumentForm = Literal["object", "text"]
_LIMIT = 1 << 63


class Conversation(NamedTuple):
    prompt: list[Item]
    answer: list[Item]
    tools: list[Item]


def rollout_to_conversation(rollout: Recorded, arguments: ArgumentForm = "text") -> Conversation:
    """Raises with file:line where an item has no form in a chat. `arguments`: of the tool calls."""
    fields = _exact_fields(rollout)
    params, response = fields.get(PARAMS), fields.get("response")
    if not isinstance(params, dict) or not isinstance(response, dict):
        lacking = "response" if isinstance(params, dict) else PARAMS
        raise UserError(f"{rollout.where}: {lacking}: is missing, so there is no conversation")
    output = response.get("output") or []
    if not isinstance(output, list):
        raise _unsayable(rollout, "response.output: is not a list")
    asked = {name: params[name] for name in ("instructions", "tools") if params.get(name)}
    prompt = _to_chat({**asked, "input": input_items(params.get("input"))}, rollout, f"{PARAMS}.input")
    answer = _to_chat({"input": output}, rollout, "response.output")
    if not answer["messages"]:
        raise _unsayable(rollout, "response.output: is empty")
    tools: list[Item] = prompt.get("tools") or []
    return Conversation(_plain(prompt["messages"], arguments), _plain(answer["messages"], arguments), tools)


def _exact_fields(rollout: Recorded) -> dict[str, Any]:
    """With the digits of integers beyond 64 bits, which the faster reader makes floats, where a chat may have any."""
    if not any(map(_has_large_float, _open_values(rollout.fields))):
        return rollout.fields
    try:
        fields: dict[str, Any] = from_json(rollout.raw)
    except ValueError:  # nested deeper than this reader goes
        return rollout.fields
    return fields


def _open_values(fields: dict[str, Any]) -> Iterator[Any]:
    """What stands in a chat as JSON and is not text: tools, and what calls and their outputs hold as objects."""
    params, response = fields.get(PARAMS), fields.get("response")
    if not isinstance(params, dict) or not isinstance(response, dict):
        return
    yield params.get("tools")
    for items in (params.get("input"), response.get("output")):
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict):
                yield from (item.get(name) for name in ("arguments", "output", "tool_calls"))


def _has_large_float(value: Any) -> bool:
    return any(isinstance(one, float) and abs(one) >= _LIMIT for one in _leaves(value))


def _to_chat(request: dict[str, Any], rollout: Recorded, place: str) -> dict[str, Any]:
    """`place`: where the line has what is the request's input."""
    try:
        return responses_to_chat(request)
    except RolloutError as error:
        message = error.message
        if message.startswith("input["):
            message = place + message.removeprefix("input")
        elif message.startswith("tools["):
            message = f"{PARAMS}.{message}"
        raise _unsayable(rollout, message) from None


def _unsayable(rollout: Recorded, what: str) -> UserError:
    return UserError(f"{rollout.where}: {what}", "add --skip-bad-rows to leave such rollouts out")


def _plain(messages: list[Item], arguments: ArgumentForm) -> list[Item]:
    """Text alone as a string: chat templates of many models take nothing else. A null content is an empty one."""
    plain = [{**message, "content": _text_of(message.get("content"))} for message in messages]
    for message in plain:
        if message.get("tool_calls"):
            message["tool_calls"] = [_with_arguments(call, arguments) for call in message["tool_calls"]]
    return plain


def _text_of(content: Any) -> Any:
    if content is None:
        return ""
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return "".join(str(part.get("text") or "") for part in content)
    return content


def _with_arguments(call: Any, form: ArgumentForm) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    given = function.get("arguments")
    converted = _to_object(given) if form == "object" else _to_text(given)
    return {**call, "function": {**function, "arguments": converted}}


def _to_object(arguments: Any) -> Any:
    """Text that is not a JSON object stays what it is. None at all is an empty object, as agents take it."""
    found = arguments or {}
    if isinstance(found, str):
        try:
            found = from_json(found, allow_inf_nan=False)
        except ValueError:
            return arguments
    return found if isinstance(found, dict) and _is_loaded(found) else _to_text(arguments)


def _to_text(arguments: Any) -> Any:
    return write_cut(arguments).decode() if isinstance(arguments, dict | list) else arguments


def _is_loaded(value: Any) -> bool:
    """Whether `load_dataset` reads it: one number beyond 64 bits, and it reads nothing of the whole file."""
    for one in _leaves(value):
        if isinstance(one, int) and not -_LIMIT <= one < _LIMIT or isinstance(one, float) and not math.isfinite(one):
            return False
    return True


def _leaves(value: Any) -> Iterator[Any]:
    """However deep they are."""
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, dict | list):
            rest.extend(one.values() if isinstance(one, dict) else one)
        else:
            yield one

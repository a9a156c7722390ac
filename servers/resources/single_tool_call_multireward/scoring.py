"""Three rewards for one tool call, as pure functions: correctness, schema_valid and format, each 0.0 or 1.0.

Lenient unless `strict`: of several calls one right one is enough, and arguments that were not asked for are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

Item = Mapping[str, Any]
_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


class Call(NamedTuple):
    name: str
    arguments: dict[str, Any]
    valid: bool  # the arguments were an object


class Schema(NamedTuple):
    """What an offered tool asks of its arguments."""

    required: tuple[str, ...]
    properties: Mapping[str, Any]


def read_calls(output: Sequence[Item]) -> list[Call]:
    calls = (item for item in output if item.get("type") == "function_call")
    return [Call(_text(call.get("name")), *_read_arguments(call.get("arguments"))) for call in calls]


def required_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, Schema]:
    """Schemas by name; of two tools with one name the first counts."""
    found: dict[str, Schema] = {}
    for tool in tools:
        name, parameters = tool.get("name"), tool.get("parameters")
        if isinstance(name, str) and name not in found:
            schema = parameters if isinstance(parameters, dict) else {}
            required, properties = schema.get("required"), schema.get("properties")
            found[name] = Schema(
                tuple(one for one in required if isinstance(one, str)) if isinstance(required, list) else (),
                properties if isinstance(properties, dict) else {},
            )
    return found


def score(
    output: Sequence[Item], calls: Sequence[Call], expected: Call, offered: Mapping[str, Schema], *, strict: bool
) -> tuple[dict[str, float], str]:
    """The three rewards, and why they are not all full."""
    wrong_call = _why_incorrect(calls, expected, strict=strict)
    bad_schema = why_invalid(calls, offered, strict=strict)
    bad_format = _why_unformed(output, calls)
    scores = {
        "correctness": float(not wrong_call),
        "schema_valid": float(not bad_schema),
        "format": float(not bad_format),
    }
    return scores, "; ".join(dict.fromkeys(filter(None, (wrong_call, bad_schema, bad_format))))


def _why_incorrect(calls: Sequence[Call], expected: Call, *, strict: bool) -> str:
    if not calls:
        return "there is no tool call"
    if strict and len(calls) > 1:
        return f"{len(calls)} calls were made, one was expected"
    if any(_matches(call, expected, strict=strict) for call in calls):
        return ""
    return f"no call is {expected.name} with the expected arguments"


def _matches(call: Call, expected: Call, *, strict: bool) -> bool:
    if call.name != expected.name:
        return False
    if strict:
        return _same(call.arguments, expected.arguments)
    return all(call.arguments.get(key) == value for key, value in expected.arguments.items())


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: `true` is not 1, 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def why_invalid(calls: Sequence[Call], offered: Mapping[str, Schema], *, strict: bool) -> str:
    """Only the first call is looked at."""
    if not calls:
        return "there is no tool call"
    call = calls[0]
    if not call.valid:
        return "the arguments are not a JSON object"
    if strict and call.name not in offered:
        return f"no tool named {call.name!r} was offered"
    schema = offered.get(call.name, Schema((), {}))
    missing = [name for name in schema.required if name not in call.arguments]
    if missing:
        return f"arguments without {', '.join(missing)}"
    return _why_mistyped(call.arguments, schema) if strict else ""


def _why_mistyped(arguments: Mapping[str, Any], schema: Schema) -> str:
    for name, value in arguments.items():
        if name not in schema.properties:
            return f"{name} is not an argument of the tool"
        wanted = schema.properties[name].get("type") if isinstance(schema.properties[name], dict) else None
        names = [one for one in (wanted if isinstance(wanted, list) else [wanted]) if isinstance(one, str)]
        types = tuple(type_ for one in names for type_ in _TYPES.get(one, (object,)))
        flag = isinstance(value, bool) and bool not in types and object not in types
        if types and (flag or not isinstance(value, types)):
            return f"{name} is not a {' or '.join(names)}"
    return ""


def _why_unformed(output: Sequence[Item], calls: Sequence[Call]) -> str:
    if len(calls) != 1:
        return f"{len(calls)} calls were made, one was expected" if calls else "there is no tool call"
    talked = any(item.get("type") == "message" for item in output)
    return "there is text beside the call" if talked else ""


def _read_arguments(given: Any) -> tuple[dict[str, Any], bool]:
    if isinstance(given, str):
        try:
            given = orjson.loads(given)
        except orjson.JSONDecodeError:
            return {}, False
    return (given, True) if isinstance(given, dict) else ({}, False)


def _text(name: Any) -> str:
    return name if isinstance(name, str) else ""

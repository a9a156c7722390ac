"""What the contract asks of a row, field by field. Every finding has the path of its field and what stands there."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from gym.data.row_parsing import AGENT_REF, PARAMS, kind_of
from gym.errors import Problem
from gym.wire.rows import AUTO
from gym.wire.server_types import AGENTS

SAMPLE: Final = 80  # characters of a value that are shown
ROLES: Final = ("system", "developer", "user", "assistant")
WRITE_AGENT: Final = 'write {"type": "responses_api_agents", "name": "..."}'
NUMBERS: Final = ("temperature", "top_p", "max_output_tokens", "max_tool_calls", "top_logprobs")
OBJECTS: Final = ("metadata", "reasoning", "text")
RARE: Final = frozenset(("instructions", *OBJECTS))


def check_contract(row: Mapping[str, Any]) -> Iterator[Problem]:
    """All violations of the contract in a parsed row."""
    if PARAMS not in row:
        yield _missing(PARAMS, row, 'add "responses_create_params": {"input": [...]}')
    elif not isinstance(params := row[PARAMS], dict):
        yield wrong(PARAMS, params, "an object", 'write {"input": [...]}')
    else:
        yield from _check_params(params)
    if row.get(AGENT_REF) is not None:
        yield from _check_agent(row[AGENT_REF])


def is_plain(row: Mapping[str, Any]) -> bool:
    """A cheap look at what nearly all rows are: True only where `check_contract` finds nothing."""
    params, ref = row.get(PARAMS), row.get(AGENT_REF)
    if type(params) is not dict or not RARE.isdisjoint(params) or not _has_numbers(params):
        return False
    if ref is not None and not (type(ref) is dict and ref.get("type", AGENTS) == AGENTS and _is_name(ref)):
        return False
    given, tools = params.get("input"), params.get("tools") or []
    if type(given) is not str and not (type(given) is list and all(map(_is_message, given))):
        return False
    return type(tools) is list and all(map(_is_function, tools))


def _has_numbers(params: Mapping[str, Any]) -> bool:
    return all(type(params.get(name)) in (int, float, type(None)) for name in NUMBERS)


def _is_name(value: Mapping[str, Any]) -> bool:
    name = value.get("name")
    return type(name) is str and name != ""


def _is_message(item: Any) -> bool:
    return (
        type(item) is dict
        and type(item.get("content")) is str
        and item.get("role") in ROLES
        and item.get("type", "message") == "message"
    )


def _is_function(tool: Any) -> bool:
    return (
        type(tool) is dict
        and _is_name(tool)
        and tool.get("type", "function") == "function"
        and type(tool.get("parameters")) is dict
    )


def wrong(key: str, value: object, wanted: str, hint: str = "") -> Problem:
    return Problem(f"is {kind_of(value)}, not {wanted}", key=key, hint=hint, value=sample_of(value))


def sample_of(value: object) -> str:
    """A value as JSON, cut short before it is written where that is easy: it may be the whole of a large row."""
    if isinstance(value, str):
        value = value[: SAMPLE + 1]
    text = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    return text if len(text) <= SAMPLE else f"{text[:SAMPLE]}…"


def _missing(key: str, row: Mapping[str, Any], hint: str) -> Problem:
    near = difflib.get_close_matches(key, row, n=1)
    return Problem("is missing", key=key, hint=f"did you mean {key} where you wrote {near[0]}?" if near else hint)


def _check_params(params: Mapping[str, Any]) -> Iterator[Problem]:
    given = params.get("input", params)
    if isinstance(given, list):
        for index, item in enumerate(given):
            yield from _check_item(index, item)
    elif given is params:
        yield Problem("is missing", key=f"{PARAMS}.input", hint='write "input": "..." or a list of messages')
    elif not isinstance(given, str):
        yield wrong(f"{PARAMS}.input", given, "a string or a list of items")
    tools = params.get("tools")
    if isinstance(tools, list):
        for index, tool in enumerate(tools):
            yield from _check_tool(f"{PARAMS}.tools[{index}]", tool)
    elif tools not in (None, AUTO):
        yield wrong(f"{PARAMS}.tools", tools, "a list of objects", 'or "auto": those of its server')
    yield from _check_settings(params)


def _check_settings(params: Mapping[str, Any]) -> Iterator[Problem]:
    if not isinstance(params.get("instructions", ""), str | None):
        yield wrong(f"{PARAMS}.instructions", params["instructions"], "a string")
    for name in NUMBERS:
        if not _is_number(params.get(name)):
            yield wrong(f"{PARAMS}.{name}", params[name], "a number")
    for name in OBJECTS:
        if not isinstance(params.get(name), dict | None):
            yield wrong(f"{PARAMS}.{name}", params[name], "an object")


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _check_item(index: int, item: object) -> Iterator[Problem]:
    if not isinstance(item, dict):
        yield wrong(f"{PARAMS}.input[{index}]", item, "an object", 'write {"role": "user", "content": "..."}')
        return
    kind = item.get("type", "message")
    if kind != "message":
        if not isinstance(kind, str):
            yield wrong(f"{PARAMS}.input[{index}].type", kind, "a string")
        return
    key = f"{PARAMS}.input[{index}]"
    role = item.get("role")
    if role is None:
        yield Problem("is missing", key=f"{key}.role", hint=f"one of: {', '.join(ROLES)}")
    elif role not in ROLES:
        near = difflib.get_close_matches(str(role), ROLES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"one of: {', '.join(ROLES)}"
        yield Problem("is not a role of a message", key=f"{key}.role", hint=hint, value=sample_of(role))
    yield from _check_content(key, item)


def _check_content(key: str, item: Mapping[str, Any]) -> Iterator[Problem]:
    if "content" not in item:
        yield Problem("is missing", key=f"{key}.content", hint='write "content": "..." or a list of parts')
        return
    content = item["content"]
    if isinstance(content, list):
        for index, part in enumerate(content):
            if not isinstance(part, dict):
                yield wrong(f"{key}.content[{index}]", part, "an object", 'write {"type": "input_text", "text": "..."}')
    elif not isinstance(content, str):
        yield wrong(f"{key}.content", content, "a string or a list of parts")


def _check_tool(key: str, tool: object) -> Iterator[Problem]:
    if not isinstance(tool, dict):
        yield wrong(key, tool, "an object", 'write {"type": "function", "name": "...", "parameters": {...}}')
        return
    if tool.get("type", "function") != "function":
        return  # a tool of the provider's own, such as web_search: only its type is the contract's
    name = tool.get("name")
    if name is None:
        nested = isinstance(tool.get("function"), dict)
        hint = "take what is in `function` one level up, as the Responses API has it" if nested else ""
        yield Problem("is missing", key=f"{key}.name", hint=hint or 'write "name": "..."')
    elif not isinstance(name, str):
        yield wrong(f"{key}.name", name, "a string")
    elif not name:
        yield Problem("is empty", key=f"{key}.name", hint="a function has a name")
    if not isinstance(tool.get("parameters"), dict | None):
        yield wrong(f"{key}.parameters", tool["parameters"], "an object", "write a JSON schema")


def _check_agent(ref: object) -> Iterator[Problem]:
    if not isinstance(ref, dict):
        yield wrong(AGENT_REF, ref, "an object", WRITE_AGENT)
        return
    name = ref.get("name")
    if name is None:
        yield Problem("is missing", key=f"{AGENT_REF}.name", hint=WRITE_AGENT)
    elif not isinstance(name, str):
        yield wrong(f"{AGENT_REF}.name", name, "a name", WRITE_AGENT)
    elif not name:
        yield Problem("is empty", key=f"{AGENT_REF}.name", hint=WRITE_AGENT)
    if ref.get("type", AGENTS) != AGENTS:
        yield Problem(f"is not {AGENTS}", key=f"{AGENT_REF}.type", hint=WRITE_AGENT, value=sample_of(ref["type"]))

"""What a person types, as the model items that it means: an answer, or the call of a tool."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gym.errors import UserError
from gym.wire import items
from gym.wire.person_play import find_tool, make_call

QUIT, BLOCK = "/quit", '"""'
HOW = (
    'Type an answer (several lines between two """), or a call: /TOOL name=value …, /TOOL {"name": …}. '
    "/tools shows them, /quit leaves."
)
_PAIR = re.compile(r"(\w+)=(?:\"((?:[^\"\\]|\\.)*)\"|(\S*))(?:\s+|$)")


class Left(Exception):  # noqa: N818 (no error: the person has left)
    """`/quit`, or the end of what is typed."""


def read_turn(read: Callable[[], str], tools: Sequence[Mapping[str, Any]], say: Callable[[str], None]) -> items.Item:
    """Asks until there is something to send; what cannot be one is said, and asked again."""
    while True:
        typed = _read_whole(read)
        if typed == QUIT:
            raise Left
        if typed == "/tools":
            for tool in tools:
                say(describe_tool(tool, whole=True))
            continue
        if not typed:
            continue
        try:
            return parse_turn(typed, tools)
        except UserError as error:
            say(str(error))


def parse_turn(typed: str, tools: Sequence[Mapping[str, Any]]) -> items.Item:
    name, _, rest = typed.removeprefix("/").partition(" ")
    if not typed.startswith("/"):
        return items.message(typed)
    return make_call(name, _arguments(rest.strip(), find_tool(name, tools)), tools)


def describe_tool(tool: Mapping[str, Any], *, whole: bool = False) -> str:
    """`count_letter(word, letter)`; with its words and types on request."""
    schema = tool.get("parameters") or {}
    known = schema.get("properties") or {}
    if not whole:
        return f"{tool.get('name')}({', '.join(known)})"
    types = ", ".join(f"{name}: {_type(one)}" for name, one in known.items())
    return f"/{tool.get('name')}  {types}\n    {tool.get('description') or ''}".rstrip()


def _read_whole(read: Callable[[], str]) -> str:
    typed = read().strip()
    if not typed.startswith(BLOCK):
        return typed
    lines = [typed.removeprefix(BLOCK)]
    while not lines[-1].endswith(BLOCK):
        lines.append(read())
    return "\n".join(lines).removesuffix(BLOCK).strip()


def _arguments(text: str, tool: Mapping[str, Any]) -> dict[str, Any]:
    if text.startswith("{"):
        try:
            return dict(json.loads(text))
        except ValueError as error:
            raise UserError(f"The arguments are not JSON: {error}") from None
    known = (tool.get("parameters") or {}).get("properties") or {}
    found = list(_PAIR.finditer(text))
    if "".join(one[0] for one in found) != text:
        raise UserError(f"{text!r} is not a list of name=value.", 'Or give an object: /TOOL {"name": "value"}')
    return {one[1]: _value(one, known.get(one[1]) or {}) for one in found}


def _value(found: re.Match[str], schema: Mapping[str, Any]) -> Any:
    """A string where one is asked for; else what the text means as JSON."""
    text = found[3] if found[2] is None else re.sub(r"\\(.)", r"\1", found[2])
    if _type(schema) == "string" or found[2] is not None:
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _type(schema: Mapping[str, Any]) -> str:
    return str(schema.get("type") or "any")

"""Templates of the scripted policy: `{group}`, `{output.path}`, `{outputs.path}`, `{pick:ABCD}`; `{group:int}`.

Compiled once. A template that is one single token keeps its value's type; other braces stay as they are.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any

import orjson

Values = Mapping[str, Any]  # group names, and `user`, `output`, `outputs`
Fill = Callable[[Values], Any]
BUILT_IN = ("user", "output", "outputs")
TOKEN = re.compile(
    r"\{(?:pick:(?P<pick>[^{}]+)|(?P<path>[A-Za-z_]\w*(?:\.[\w-]+)*)(?::(?P<kind>int|float|json|str))?)\}"
)


class CannotFillError(Exception):
    """A value is not there or not of the kind asked for: the rule does not apply."""


class BadTemplateError(Exception):
    """A name that nothing defines and that looks like one that is defined."""


def compile_value(value: Any, names: Iterable[str]) -> Fill:
    """A filler for a whole tree of arguments; keys are taken as they are."""
    if isinstance(value, str):
        return compile_text(value, names)
    if isinstance(value, dict):
        fields = {key: compile_value(one, names) for key, one in value.items()}
        return lambda values: {key: fill(values) for key, fill in fields.items()}
    if isinstance(value, list):
        parts = [compile_value(one, names) for one in value]
        return lambda values: [fill(values) for fill in parts]
    return lambda _: value


def compile_text(text: str, names: Iterable[str]) -> Fill:
    known = {*names, *BUILT_IN}
    parts: list[str | Fill] = []
    end = 0
    for match in TOKEN.finditer(text):
        fill = _token(match, known)
        if fill is not None:
            parts += [text[end : match.start()], fill]
            end = match.end()
    parts.append(text[end:])
    if not any(callable(part) for part in parts):
        return lambda _: text
    if len(parts) == 3 and parts[0] == parts[2] == "" and callable(parts[1]):
        return parts[1]
    return lambda values: "".join(part if isinstance(part, str) else _to_text(part(values)) for part in parts)


def _token(match: re.Match[str], known: set[str]) -> Fill | None:
    if match["pick"]:
        choices = match["pick"].split("|") if "|" in match["pick"] else list(match["pick"])
        return lambda values: choices[_digest(values["user"]) % len(choices)]
    name, *path = match["path"].split(".")
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        if near or path or match["kind"]:
            hint = f"did you mean `{near[0]}`" if near else f"there are {', '.join(sorted(known))}"
            raise BadTemplateError(f"`{match[0]}`: nothing is called `{name}`; {hint}")
        return None
    return _reader(name, path, match["kind"] or "")


def _reader(name: str, path: list[str], kind: str) -> Fill:
    def read(values: Values) -> Any:
        value = values.get(name)
        if name == "outputs":
            return [_convert(_walk(one, path), kind) for one in value or ()]
        return _convert(_walk(value, path), kind)

    return read


def _walk(value: Any, path: list[str]) -> Any:
    for key in path:
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            raise CannotFillError(key)
    if value is None:
        raise CannotFillError(".".join(path))
    return value


def _convert(value: Any, kind: str) -> Any:
    try:
        if kind in ("int", "float"):
            return (int if kind == "int" else float)(value.replace(",", "") if isinstance(value, str) else value)
        if kind == "json" and isinstance(value, str):
            return orjson.loads(value)
    except (ValueError, TypeError):
        raise CannotFillError(f"{value!r} is not a {kind}") from None
    return _to_text(value) if kind == "str" else value


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")

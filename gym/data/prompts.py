"""Prompt templates put onto rows: NeMo Gym's YAML of `user` and `system`, with `{field}` where a row's field goes."""

from __future__ import annotations

import difflib
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pydantic_core import from_json

from gym.config.nodes import Node
from gym.config.yaml_source import read_yaml
from gym.data.line_source import Line
from gym.data.row_parsing import PARAMS, BadLine, bad_line, parse_object
from gym.errors import ConfigError, Problem
from gym.wire.deep_values import TOO_DEEP_TO_CHANGE

USED: Final = "prompt_config_used"  # the field with the template that a row was made with
PARTS: Final = ("system", "user")
MAX_SHOWN = 20
_FORMATTER: Final = string.Formatter()


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """`fields`: what each template takes from a row."""

    file: str
    user: str
    system: str | None
    fields: tuple[str, ...]
    unused: tuple[str, ...] = ()  # keys of the file that mean nothing here

    def messages(self, row: Mapping[str, Any]) -> list[dict[str, str]]:
        templates = {"system": self.system, "user": self.user}
        return [
            {"role": role, "content": _FORMATTER.vformat(text, (), row)}
            for role, text in templates.items()
            if text is not None
        ]


def read_prompt(path: Path) -> PromptTemplate:
    """Every mistake in the file at once, with its line."""
    tree = read_yaml(path, str(path))
    problems: list[Problem] = []
    texts = {name: _text(tree, name, str(path), problems) for name in PARTS}
    fields = [one for name in PARTS for one in _fields(texts[name], tree.child(name), name, problems)]
    if problems:
        raise ConfigError(problems)
    unused = tuple(key for key in tree.value if key not in PARTS)
    return PromptTemplate(str(path), texts["user"] or "", texts["system"], tuple(dict.fromkeys(fields)), unused)


def render_rows(lines: Iterator[Line], prompt: PromptTemplate, *, replace: bool = False) -> Iterator[dict[str, Any]]:
    """The rows with their messages; at the first that cannot be made, an error that names it and those after it."""
    for line in lines:
        try:
            yield render_row(line, prompt, replace=replace)
        except BadLine as bad:
            problems = [bad.problem, *islice(_problems(lines, prompt, replace), MAX_SHOWN)]
            more = len(problems) > MAX_SHOWN
            raise ConfigError(problems[:MAX_SHOWN], "there are more" if more else "") from None


def render_row(line: Line, prompt: PromptTemplate, *, replace: bool = False) -> dict[str, Any]:
    """All other fields of the row and of what is asked stay as they are."""
    parse_object(line)  # says what is wrong; the other reader keeps integers of any size
    try:
        row = from_json(line.raw)
    except ValueError:
        raise bad_line(line, TOO_DEEP_TO_CHANGE, hint="make the row flatter") from None
    params = row.get(PARAMS) or {}
    if not isinstance(params, dict):
        raise bad_line(line, "is not an object", key=PARAMS, hint="leave it out, or write {}")
    if params.get("input") and not replace:
        raise bad_line(line, "is there already", key=f"{PARAMS}.input", hint="--replace puts the prompt in its place")
    for name in prompt.fields:
        if row.get(name) is None:
            near = difflib.get_close_matches(name, row, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the row has {', '.join(row) or 'no fields'}"
            what = "is null" if name in row else "is missing"
            raise bad_line(line, f"{what}, and {prompt.file} asks for it", key=name, hint=hint)
    try:
        asked = prompt.messages(row)
    except (LookupError, TypeError, ValueError) as error:
        raise bad_line(line, f"{prompt.file} does not fit the row: {error}") from None
    return {**row, PARAMS: {**params, "input": asked}, USED: prompt.file}


def _problems(lines: Iterator[Line], prompt: PromptTemplate, replace: bool) -> Iterator[Problem]:
    for line in lines:
        try:
            render_row(line, prompt, replace=replace)
        except BadLine as bad:
            yield bad.problem


def _text(tree: Node, name: str, file: str, problems: list[Problem]) -> str | None:
    node = tree.child(name)
    if node is None or node.value is None:
        if name == "user":
            hint = 'user: "{question}"'
            problems.append(Problem("is missing: the template of the user message", file, tree.line, name, hint))
        return None
    if not isinstance(node.value, str):
        hint = 'put the text in quotes: user: "{question}"'
        problems.append(Problem("is not a text", file, node.line, name, hint))
        return None
    return node.value


def _fields(text: str | None, node: Node | None, name: str, problems: list[Problem]) -> Iterator[str]:
    """The first part of every placeholder; `{options[0]}` takes `options`."""
    file, line = (node.file, node.line) if node else ("", 0)
    try:
        for _, field, spec, _ in _FORMATTER.parse(text or ""):
            if field is None:
                continue
            first = field.partition("[")[0]
            if not first or first.isdecimal() or "." in field or "{" in (spec or ""):
                hint = "write {field}, or {field[key]} for what lies in it; a brace that is meant is written twice"
                problems.append(Problem(f"{{{field}}} names no field", file, line, name, hint))
                continue
            yield first
    except ValueError as error:
        problems.append(Problem(f"{error}", file, line, name, "a brace that is meant is written twice: {{ and }}"))

"""The fields of a model as rows of a table: name, type, default, and the docstring below the field."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import io
import json
import textwrap
import tokenize
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from gym import labels

WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "any", object: "any"}
BOUNDS = {"ge": "from {}", "gt": "above {}", "le": "to {}", "lt": "below {}"}
UNITS = {"g": 1 << 30, "m": 1 << 20}
NEEDED = "needed"


class FieldRow(NamedTuple):
    name: str
    type: str
    default: str
    meaning: str


def field_rows(model: type[Any], *, own: bool = False) -> list[FieldRow]:
    """Every field of a pydantic model or a dataclass; with `own` without those of its bases."""
    hints, texts = get_type_hints(model, include_extras=True), docstrings(model)
    names = (
        list(model.model_fields) if issubclass(model, BaseModel) else [one.name for one in dataclasses.fields(model)]
    )
    if own:
        names = [name for name in names if name in model.__annotations__]
    if lacking := [name for name in names if not texts.get(name)]:
        raise SystemExit(f"{model.__module__}.{model.__name__}: no docstring below {', '.join(lacking)}")
    return [FieldRow(name, _type(model, name, hints[name]), _default(model, name), texts[name]) for name in names]


def table(rows: Iterable[FieldRow], heading: str = "key") -> str:
    lines = [f"| {heading} | type | default | meaning |", "|---|---|---|---|"]
    lines += [f"| `{one.name}` | {cell(one.type)} | {cell(one.default)} | {cell(one.meaning)} |" for one in rows]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def first_paragraph(text: str | None) -> str:
    return " ".join((text or "").strip().partition("\n\n")[0].split())


@functools.cache
def docstrings(model: type[Any]) -> Mapping[str, str]:
    """By field, those of the bases included."""
    found: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        if kind.__module__.startswith("gym."):
            found |= dict(_own_docstrings(kind))
    return found


@functools.cache
def constant_comments() -> Mapping[str, str]:
    """The constants of gym.labels, each with the comment behind it."""
    source = Path(labels.__file__).read_text("utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {one.start[0]: one.string.lstrip("# ") for one in tokens if one.type == tokenize.COMMENT}
    constants = [one for one in ast.parse(source).body if isinstance(one, ast.AnnAssign)]
    return {one.target.id: comments.get(one.lineno, "") for one in constants if isinstance(one.target, ast.Name)}


def _own_docstrings(kind: type[Any]) -> Iterator[tuple[str, str]]:
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    for field, below in zip(body.body, body.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            yield field.target.id, " ".join(below.value.value.split())


def _type(model: type[Any], name: str, hint: Any) -> str:
    """`null` is said where it can be chosen: not where it only stands for what was left out."""
    is_pydantic = issubclass(model, BaseModel)
    inner = [one for one in get_args(hint) if one is not type(None)]
    optional = get_origin(hint) in (Union, types.UnionType) and len(inner) < len(get_args(hint))
    words = " or ".join(dict.fromkeys(map(type_words, inner))) if optional else type_words(hint)
    bounds = " ".join(_bounds(model.model_fields[name].metadata)) if is_pydantic and words != "size" else ""
    words = f"{words} {bounds}" if bounds and bounds not in words else words
    return f"{words}, or `null`" if optional and _default(model, name) else words


def _bounds(metadata: Iterable[Any]) -> Iterator[str]:
    for one in metadata:
        for bound, text in BOUNDS.items():
            if (value := getattr(one, bound, None)) is not None:
                yield text.format(f"{value:,}")


def type_words(hint: Any) -> str:
    """`tuple[str, ...]` is `list of text`."""
    if hint in WORDS:
        return WORDS[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(inner[0], inner[1:])
    if origin is Literal:
        return ", ".join(f"`{json.dumps(one).strip(chr(34))}`" for one in inner)
    if origin in (Union, types.UnionType):
        parts = dict.fromkeys(type_words(one) for one in inner if one is not type(None))
        return " or ".join([*parts, *(["`null`"] if type(None) in inner else [])])
    if origin in (list, tuple):
        return f"list of {type_words(inner[0])}" if inner else "list"
    return "mapping" if origin in (dict, Mapping) or inspect.isclass(hint) or origin else str(hint)


def _annotated(kind: Any, metadata: Iterable[Any]) -> str:
    metadata = list(metadata)
    if any("size" in getattr(getattr(one, "func", None), "__name__", "").lower() for one in metadata):
        return "size"  # bytes, or a number with a letter
    bounds = " ".join(_bounds(inner for one in metadata for inner in getattr(one, "metadata", [one])))
    return f"{type_words(kind)} {bounds}".strip()


def _default(model: type[Any], name: str) -> str:
    if issubclass(model, BaseModel):
        field = model.model_fields[name]
        return NEEDED if field.is_required() else shown(field.get_default(call_default_factory=True))
    (found,) = (one for one in dataclasses.fields(model) if one.name == name)
    if found.default is not dataclasses.MISSING:
        return shown(found.default)
    return shown(found.default_factory()) if found.default_factory is not dataclasses.MISSING else NEEDED


def shown(value: Any) -> str:
    """As one would write it in YAML; nothing where there is none."""
    if isinstance(value, BaseModel):
        return ""
    if value is None or value == "" or (isinstance(value, (Mapping, list, tuple)) and not value):
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number(value)
    return f"`{json.dumps(list(value) if isinstance(value, tuple) else value)}`".replace('`"', "`").replace('"`', "`")


def _number(value: float) -> str:
    """Bytes in the unit in which they are a small number."""
    if isinstance(value, int):
        for unit, size in UNITS.items():
            if value >= size and value % size == 0:
                return f"`{value // size}{unit}`"
    return f"{int(value):,}" if value == int(value) else str(value)

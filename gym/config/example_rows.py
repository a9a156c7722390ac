"""A server's example rows: where they are, what is in them, and which fields they have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

EXAMPLE = Path("data") / "example.jsonl"
FLAT_EXAMPLES = ("example.jsonl", "rows.jsonl")  # of a project of three files
LONGEST = 60
LONGEST_TEXT = 400  # of a row's texts, so that a prompt of many pages leaves its other fields in sight


class RowField(NamedTuple):
    """A row field as the examples show it."""

    name: str
    type: str
    example: str


def example_of(directory: Path) -> Path:
    """Where a server's example rows are, or would be."""
    found = (directory / one for one in (EXAMPLE, *FLAT_EXAMPLES))
    return next((path for path in found if path.is_file()), directory / EXAMPLE)


def row_fields(example: Path) -> tuple[RowField, ...]:
    """Every field of the example rows with the JSON types it has there."""
    types: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    for row in example_rows(example):
        for name, value in row.items():
            kinds = types.setdefault(name, [])
            if (kind := _type_of(value)) not in kinds:
                kinds.append(kind)
            shown.setdefault(name, _short(value))
    return tuple(RowField(name, " or ".join(kinds), shown[name]) for name, kinds in types.items())


def example_rows(example: Path) -> list[dict[str, Any]]:
    """As far as they can be read: `gym test` says what is wrong with the others."""
    rows = []
    for line in example.read_text("utf-8", errors="replace").splitlines() if example.is_file() else ():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def shorten(value: Any) -> Any:
    """The same value with an ellipsis in its long texts."""
    if isinstance(value, dict):
        return {key: shorten(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shorten(one) for one in value]
    return f"{value[:LONGEST_TEXT]}…" if isinstance(value, str) and len(value) > LONGEST_TEXT else value


def _type_of(value: Any) -> str:
    if isinstance(value, list):
        inner = dict.fromkeys(_type_of(one) for one in value)
        return f"list of {' or '.join(inner)}" if inner else "list"
    names = {bool: "true or false", int: "integer", float: "number", str: "text", dict: "object", type(None): "null"}
    return names[type(value)]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"

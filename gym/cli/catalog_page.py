"""What `gym list` and `gym info` say of servers: rows, a Markdown table, the fields of a data set's rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gym.config import CatalogEntry
from gym.errors import UserError
from gym.wire.server_types import KINDS

HEADINGS = {"resources": "Environments", "agent": "Agents", "model": "Models"}
LONGEST = 60
LONGEST_TEXT = 400  # of a row's texts, so that a prompt of many pages leaves its other fields in sight
MEDIUM, WIDE = 100, 120  # terminals with room for the domain, and for the licence as well
PREFACE = """# Servers

Written by `scripts/catalog`; a test checks that it is current. `gym info NAME` shows more of each.

Kinds: *rule*, the verifier is code; *judge*, it asks a model; *sandbox*, it runs code in a container; *network*, its
tools reach the Internet, and a recorded copy stands in for it in tests; *example*, it shows how something is written.
"""


class RowField(NamedTuple):
    """A row field as the examples show it."""

    name: str
    type: str
    example: str


class CatalogFilter(NamedTuple):
    """Which servers a list is asked for; an empty word asks for all."""

    type: str = ""
    kind: str = ""
    domain: str = ""

    def fits(self, entry: CatalogEntry) -> bool:
        return (
            self.type in ("", KINDS[entry.type]) and self.kind in ("", entry.kind) and self.domain in ("", entry.domain)
        )


def check_domain(domain: str, entries: Iterable[CatalogEntry]) -> None:
    domains = sorted({one.domain for one in entries if one.domain})
    if domain and domain not in domains:
        raise UserError(f"No server is of the domain `{domain}`.", f"There are {', '.join(domains)}.")


def entry_table(entries: Iterable[CatalogEntry], width: int | None) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows: everything where there is no width; on a terminal what leaves room for a description."""
    if width is None:
        columns: tuple[str, ...] = ("NAME", "TYPE", "DOMAIN", "KIND", "LICENCE", "")
    else:
        columns = (
            "NAME",
            "KIND",
            *(("DOMAIN",) if width >= MEDIUM else ()),
            *(("LICENCE",) if width >= WIDE else ()),
            "",
        )
    return columns, [tuple(_column(entry, one, width) for one in columns) for entry in entries]


def _column(entry: CatalogEntry, column: str, width: int | None) -> str:
    texts = {
        "NAME": entry.name,
        "TYPE": KINDS[entry.type],
        "DOMAIN": entry.domain,
        "KIND": entry.kind or ("" if width is None else KINDS[entry.type]),
        "LICENCE": entry.licence,
        "": entry.description,
    }
    return texts[column]


def servers_to_markdown(entries: Sequence[CatalogEntry]) -> str:
    """The page servers/README.md."""
    parts = [PREFACE]
    for kind, heading in HEADINGS.items():
        chosen = [one for one in entries if KINDS[one.type] == kind]
        if chosen:
            parts.append(f"## {heading}\n\n{_table(kind, chosen)}")
    return "\n".join(parts)


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


def _table(kind: str, entries: Iterable[CatalogEntry]) -> str:
    folder = {"resources": "resources", "agent": "agents", "model": "models"}[kind]
    columns = ["Name", "Domain", "Kind", "Licence", ""] if kind == "resources" else ["Name", ""]
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for one in entries:
        name = f"[{one.name}]({folder}/{one.name}/README.md)"
        middle = [one.domain, one.kind, one.licence] if kind == "resources" else []
        lines.append(f"| {' | '.join(_cell(text) for text in (name, *middle, one.description))} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _type_of(value: Any) -> str:
    if isinstance(value, list):
        inner = dict.fromkeys(_type_of(one) for one in value)
        return f"list of {' or '.join(inner)}" if inner else "list"
    names = {bool: "true or false", int: "integer", float: "number", str: "text", dict: "object", type(None): "null"}
    return names[type(value)]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"

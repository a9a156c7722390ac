"""What `gym list` and `gym info` say of servers: rows, a Markdown table, the fields of a data set's rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gym.config import CatalogEntry
from gym.errors import UserError
from gym.wire.server_types import KINDS

HEADINGS = {"resources": "Environments", "agent": "Agents", "model": "Models"}
MEDIUM, WIDE = 100, 120  # terminals with room for the domain, and for the licence as well
PREFACE = """# Servers

Written by `scripts/catalog`; a test checks that it is current. `gym info NAME` shows more of each.

Kinds: *rule*, the verifier is code; *judge*, it asks a model; *sandbox*, it runs code in a container; *network*, its
tools reach the Internet, and a recorded copy stands in for it in tests; *example*, it shows how something is written.
"""


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

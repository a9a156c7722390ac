"""What `scripts/audits` measured of an environment, out of the tables of the page that it writes."""

from __future__ import annotations

import re
from pathlib import Path

_NAMED = re.compile(r"^\[?(?P<name>[\w.-]+)\]?(?:\([^)]*\))?$")


def read_audits(page: Path) -> dict[str, list[dict[str, str]]]:
    """By environment: for each table that names it, its figures under their headings. Empty where there is no page."""
    found: dict[str, list[dict[str, str]]] = {}
    heads: list[str] = []
    for line in _lines(page):
        if not line.startswith("|"):
            heads = []
            continue
        if not set(line.strip()) - set("|-: "):
            continue
        cells = [one.strip() for one in line.strip().strip("|").split("|")]
        if not heads:
            heads = cells
        elif (named := _NAMED.match(cells[0])) is not None:
            figures = {head: cell for head, cell in zip(heads[1:], cells[1:], strict=False) if cell}
            found.setdefault(named["name"], []).append(figures)
    return found


def _lines(page: Path) -> list[str]:
    try:
        return page.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []

"""The files of docs/postgresql.md, as its reader writes them down."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "postgresql.md"
FILE = re.compile(r"^`([\w./]+)`\n\n(?:<!-- [^\n]* -->\n)?```\w+\n(.*?)^```$", re.M | re.S)


def write_ledger(folder: Path) -> Path:
    for name, text in FILE.findall(PAGE.read_text("utf-8")):
        (folder / "ledger" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "ledger" / name).write_text(text)
    return folder / "ledger"

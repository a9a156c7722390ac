"""Where a server's example rows are, and how a file is named from here."""

from __future__ import annotations

import os
from pathlib import Path

EXAMPLE = Path("data") / "example.jsonl"
FLAT_EXAMPLES = ("example.jsonl", "rows.jsonl")  # of a project of three files


def example_of(directory: Path) -> Path:
    """Where a server's example rows are, or would be."""
    found = (directory / one for one in (EXAMPLE, *FLAT_EXAMPLES))
    return next((path for path in found if path.is_file()), directory / EXAMPLE)


def relative(path: Path) -> str:
    """The shortest way to name a file from here."""
    below = os.path.relpath(path)
    return str(path) if below.startswith("..") else below

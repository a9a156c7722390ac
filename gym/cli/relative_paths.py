"""How a file is named from here."""

from __future__ import annotations

import os
from pathlib import Path


def relative(path: Path) -> str:
    """The shortest way to name a file from here."""
    below = os.path.relpath(path)
    return str(path) if below.startswith("..") else below

"""Where a stack was started, and where its console looks for collected rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = "results"
STATE_DIR: Final = ".gym"  # below the folder that `gym up` was typed in; one folder a stack


def folder_of(home: Path) -> Path:
    """Where `gym up` was typed: a home is `.gym/NAME` below it. What `gym render -o` wrote is a folder by itself."""
    return home.parent.parent if home.parent.name == STATE_DIR else home


def results_folder(named: str, home: Path) -> Path:
    """`named` by GYM_RESULTS, else `results`."""
    return folder_of(home) / (named or FOLDER)

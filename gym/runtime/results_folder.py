"""Where a stack's console looks for collected rollouts."""

from __future__ import annotations

from pathlib import Path

FOLDER = "results"


def results_folder(named: str, home: Path) -> Path:
    """`named` by GYM_RESULTS, else `results`, beside where `gym up` was typed: a stack's home is `.gym/NAME` below."""
    return home.parent.parent / (named or FOLDER)

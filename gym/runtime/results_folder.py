"""Where a stack's console looks for collected rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gym.labels import ENV_RESULTS

FOLDER = "results"


def results_folder(environ: Mapping[str, str], home: Path) -> Path:
    """`GYM_RESULTS`, else `results` beside where `gym up` was typed: a stack's home is `.gym/NAME` below that."""
    started = home.parent.parent
    return started / (environ.get(ENV_RESULTS) or FOLDER)

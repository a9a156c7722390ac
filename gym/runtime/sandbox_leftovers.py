"""Where a stack keeps what its sandbox broker reads, and removing what a dead one left: all that `gym down` needs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from gym.programs import run_program

FOLDER: Final = "sandbox"
CONFIG: Final = "config.json"
TOKENS: Final = "sandbox-tokens.json"
HAND_OVER: Final = "SIGUSR1"  # to a broker: another one follows, leave it the sandboxes
LEFTOVERS: Final = "gym.broker.sweep"
SWEEP_SECONDS: Final = 120.0


def config_path(home: Path) -> Path:
    return home / FOLDER / CONFIG


def remove_leftovers(home: Path) -> None:
    """After the broker ended, also where it was killed: removes all that carries the stack's label, and its tokens."""
    path = config_path(home)
    if path.is_file():
        run_program((sys.executable, "-P", "-m", LEFTOVERS, str(path)), timeout=SWEEP_SECONDS)
        path.unlink(missing_ok=True)
    (home / TOKENS).unlink(missing_ok=True)

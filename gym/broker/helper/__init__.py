"""The static program that is every sandbox's first process. scripts/helper builds it; it lies beside its source."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gym.errors import InfraError

FOLDER: Final = Path(__file__).parent
MACHINES: Final = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


def find_helper(machine: str) -> Path:
    """For a machine as `uname -m` or an engine names it."""
    known = MACHINES.get(machine.lower())
    path = FOLDER / "bin" / f"gym-helper-{known}"
    if known is None or not path.is_file():
        raise InfraError(
            f"no sandbox helper for {machine!r}: there is one for {', '.join(sorted(set(MACHINES.values())))}",
            "Run on one of these machines, or build one with `scripts/helper` in a checkout.",
        )
    return path

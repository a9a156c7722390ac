"""Where the cluster is that has a stack: a file in its folder, from the start of the stack to its end.

Which shell asks makes no difference, nor what its RAY_ADDRESS says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gym.files import write_atomically

CLUSTER: Final = "cluster"


def note_cluster(home: Path, address: str) -> None:
    write_atomically(home / CLUSTER, address)


def noted_cluster(home: Path) -> str:
    path = home / CLUSTER
    return path.read_text("utf-8") if path.is_file() else ""


def forget_cluster(home: Path) -> None:
    (home / CLUSTER).unlink(missing_ok=True)

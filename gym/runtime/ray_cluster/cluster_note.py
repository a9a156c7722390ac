"""Where the cluster is that has a stack: a file in its folder, from the start of the stack to its end.

Which shell asks makes no difference, nor what its RAY_ADDRESS says. The user's state folder has it too: a folder may be
removed while the stack runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from gym.files import write_atomically
from gym.runtime.user_state import note_of, notes, owner

CLUSTER: Final = "cluster"
NOTES: Final = "ray"  # in the user's state folder


class ClusterNote(NamedTuple):
    home: Path
    address: str
    owner: str


def note_cluster(home: Path, address: str) -> None:
    write_atomically(home / CLUSTER, address)
    note = ClusterNote(home.resolve(), address, owner())
    with contextlib.suppress(OSError):  # who has no writable state folder has stacks all the same
        write_atomically(note_of(NOTES, note.home), orjson.dumps(note._asdict(), default=str).decode())


def noted_cluster(home: Path) -> str:
    path = home / CLUSTER
    if path.is_file():
        return path.read_text("utf-8")
    found = None if home.is_dir() else _read(note_of(NOTES, home.resolve()))
    return found.address if found else ""


def forget_cluster(home: Path) -> None:
    (home / CLUSTER).unlink(missing_ok=True)
    note_of(NOTES, home.resolve()).unlink(missing_ok=True)


def lost_homes() -> Iterator[Path]:
    """Of this user's stacks that were not ended, the folders that are gone."""
    for path in notes(NOTES):
        found = _read(path)
        if found and found.owner == owner() and not found.home.is_dir():
            yield found.home


def _read(path: Path) -> ClusterNote | None:
    try:
        found = orjson.loads(path.read_bytes())
        return ClusterNote(Path(found["home"]), found["address"], found["owner"])
    except (OSError, ValueError, LookupError, TypeError):
        return None

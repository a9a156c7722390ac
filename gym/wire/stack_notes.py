"""What a runtime and a broker tell the console of a stack, as files in one folder: they write, it reads.

So it shows what only they can know, and has no way to ask anything of who holds the engine's socket.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, RootModel

from gym.files import SHARED, write_atomically

REPLICAS: Final = "replicas.json"
STALE_SECONDS: Final = 15.0  # the broker writes every two


class ConsoleNote(BaseModel):
    """Of any version: what is new to a reader is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ReplicaNote(ConsoleNote):
    pid: int = 0
    restarts: int = 0  # of a process that ended unasked
    why: str = ""  # it ended, the last time
    at: float = 0.0  # seconds since the epoch


class ReplicaNotes(RootModel[dict[str, ReplicaNote]]):
    """By replica."""

    model_config = ConfigDict(frozen=True)


class SandboxNotes(ConsoleNote):
    provider: str = ""
    alive: int = 0
    warm: int = 0
    waiting: int = 0  # creates that wait for their turn
    at_once: int = 0  # how many may be made at once just now
    breaker: str = "closed"
    at: float = 0.0  # seconds since the epoch: who reads it sees whether the writer still writes

    def is_stale(self, now: float) -> bool:
        return now - self.at > STALE_SECONDS


def write_note(path: Path, note: BaseModel) -> bool:
    return write_atomically(path, note.model_dump_json(), mode=SHARED)

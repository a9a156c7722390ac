"""Collections that run now: collectors report every second or two, the page shows them, a silent one is removed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gym.wire.failures import RolloutError

SILENCE_SECONDS = 10.0
MAX_COLLECTIONS = 200
MAX_BYTES = 64 * 1024

Words = Annotated[str, Field(max_length=500)]
Count = Annotated[int, Field(ge=0)]


class CollectorModel(BaseModel):
    """A collector's report, perhaps of another version: unknown fields are left out."""

    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class AgentView(CollectorModel):
    done: Count = 0
    failed: Count = 0
    mean_reward: float | None = None


class HeldView(CollectorModel):
    instance: Words
    provider: Words = ""
    waiting: Count = 0
    refused: Count = 0
    seconds: Count = 10


class ProgressView(CollectorModel):
    done: Count = 0
    failed: Count = 0
    resumed: Count = 0
    dropped: Count = 0
    total: Count | None = None
    in_flight: Count = 0
    retries: Count = 0
    rate: float = 0.0
    mean_reward: float | None = None
    eta_seconds: float | None = None
    elapsed: float = 0.0
    paused_reason: Words = ""
    held: Annotated[tuple[HeldView, ...], Field(max_length=100)] = ()
    stopping: bool = False
    agents: Annotated[dict[str, AgentView], Field(max_length=100)] = {}
    failures: Annotated[dict[str, Count], Field(max_length=100)] = {}


class Heartbeat(CollectorModel):
    id: Annotated[str, Field(pattern=r"^[\w.-]{1,64}$")]
    output: Words = ""
    host: Words = ""
    pid: int = 0
    ended: bool = False
    progress: ProgressView = ProgressView()


@dataclass(slots=True)
class _Entry:
    heartbeat: Heartbeat
    heard: float
    look: Callable[[], dict[str, Any]] | None = None  # of a collection in this process, which is asked instead


class Collections:
    """The board: one per console. Holds no more than `MAX_COLLECTIONS`, the longest silent go first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[str, _Entry] = {}

    def hear(self, body: bytes) -> None:
        """Takes a collector's heartbeat; a malformed one is refused with what is wrong."""
        try:
            heartbeat = Heartbeat.model_validate_json(body)
        except ValidationError as error:
            found = error.errors()[0]
            where = ".".join(map(str, found["loc"])) or "body"
            raise RolloutError("row", f"no heartbeat of a collection: {where}: {found['msg']}") from None
        self._entries.pop(heartbeat.id, None)
        if not heartbeat.ended:
            self._put(heartbeat.id, _Entry(heartbeat, self._clock()))

    def follow(self, id: str, output: str, look: Callable[[], dict[str, Any]]) -> None:
        """A collection of this process: `look` gives its progress until `drop`."""
        self._put(id, _Entry(Heartbeat(id=id, output=output), self._clock(), look))

    def drop(self, id: str) -> None:
        self._entries.pop(id, None)

    def running(self) -> list[dict[str, Any]]:
        """Those that were heard of lately, in the order of their names."""
        self._forget()
        return [_view(one) for _, one in sorted(self._entries.items())]

    def _put(self, id: str, entry: _Entry) -> None:
        self._forget()
        while len(self._entries) >= MAX_COLLECTIONS:
            del self._entries[next(iter(self._entries))]
        self._entries[id] = entry

    def _forget(self) -> None:
        border = self._clock() - SILENCE_SECONDS
        self._entries = {id: one for id, one in self._entries.items() if one.look or one.heard >= border}


def _view(entry: _Entry) -> dict[str, Any]:
    heartbeat = entry.heartbeat
    progress = entry.look() if entry.look else heartbeat.progress.model_dump()
    return {
        "id": heartbeat.id,
        "output": heartbeat.output,
        "host": heartbeat.host,
        "pid": heartbeat.pid,
        "progress": progress,
    }

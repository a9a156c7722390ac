"""Recorded model calls by session id, of one process: bounded in memory and on disk, dropped by TTL or by DELETE.

A trace is either whole, or says what it lacks: what did not fit is counted, what was dropped leaves its reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from gym.server.blocks import Arena, Spool
from gym.wire.failures import RolloutError

MIB: Final = 2**20
CALL_OVERHEAD: Final = 600  # bytes of objects around the texts of a call; they stay in memory
SPILL: Final = 8 * MIB  # at once: the event loop waits for it
REMEMBERED: Final = 10_000  # dropped sessions whose reason is kept
NO_ROOM: Final = "it made room: raise capture.max_disk_bytes or capture.max_memory_bytes, or DELETE what is read"


class CaptureLimits(BaseModel):
    """The field `capture` of a model's config."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_sessions: int = Field(default=10_000, ge=1)
    """The most sessions at once."""
    max_session_bytes: int = Field(default=128 * MIB, ge=1)
    """The most bytes of one session."""
    max_memory_bytes: int = Field(default=256 * MIB, ge=64 * 1024)
    """The most bytes in memory; what is beyond goes to disk."""
    max_disk_bytes: int = Field(default=1024 * MIB, ge=0)
    """The most bytes on disk; 0: nothing goes there."""
    ttl_seconds: float = Field(default=3600.0, gt=0)
    """A session without a call for so long is dropped."""


@dataclass(slots=True)
class RecordedCall:
    """One call. Its texts begin at `start` of what its trace has in memory, or of `on_disk`."""

    path: str
    started_at: float  # seconds since the epoch
    seconds: float
    status: int
    stream: bool
    request_size: int = 0
    reply_size: int = 0
    start: int = 0
    on_disk: list[int] | None = None

    @property
    def size(self) -> int:
        return self.request_size + self.reply_size


@dataclass(slots=True, eq=False)
class Trace:
    """The calls of one session."""

    id: str
    owner: bytes  # digest of the token that claimed it; empty: every caller that knows the id
    rollout: str  # the rollout id of its first call that had one
    created: float
    used: float
    calls: list[RecordedCall] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)  # in memory
    end: int = 0  # of its text in them
    total: int = 0
    spilled: int = 0  # so many calls, the oldest, are on disk
    in_flight: int = 0
    not_recorded: int = 0  # calls after the session's bound was reached
    claimed: bool = False  # the other replicas were asked: it has had a call
    holders: set[str] = field(default_factory=set)  # other processes of the same instance that hold a part of it
    unsure: set[str] = field(default_factory=set)  # URLs of those that did not say whether they do
    lost: str = ""  # why recorded calls are gone
    dropped: bool = False


class TraceStore:
    """Traces ordered by last use. The least recently used go to disk first, and then away."""

    def __init__(self, limits: CaptureLimits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._traces: dict[str, Trace] = {}
        self._in_memory: dict[str, Trace] = {}  # those with texts in memory, ordered by their last call
        self._on_disk: dict[str, Trace] = {}  # those with texts on disk, ordered by their last spill
        self._gone: dict[str, str] = {}  # id -> why
        self._calls = 0
        self._arena = Arena(limits.max_memory_bytes)
        self._spool = Spool(limits.max_disk_bytes)

    def __len__(self) -> int:
        return len(self._traces)

    @property
    def memory(self) -> int:
        return self._arena.used + self._calls * CALL_OVERHEAD

    @property
    def disk(self) -> int:
        return self._spool.used

    def find(self, session_id: str, owner: bytes) -> Trace | None:
        """Moved to the young end. The failure of a wrong token where it is owned by another."""
        trace = self._traces.get(session_id)
        if trace is None:
            return None
        if trace.owner != owner:
            raise owned_by_another(session_id)
        trace.used = self._clock()
        self._traces[session_id] = self._traces.pop(session_id)
        return trace

    def open(self, session_id: str, owner: bytes, rollout: str = "") -> Trace:
        """The session's trace, a new one where there is none."""
        trace = self.find(session_id, owner)
        if trace is None:
            return self._open_new(session_id, owner, rollout)
        if rollout and trace.rollout and rollout != trace.rollout:
            raise owned_by_another(session_id)
        trace.rollout = trace.rollout or rollout
        return trace

    def why_gone(self, session_id: str) -> str:
        return self._gone.get(session_id, "")

    def add(self, trace: Trace, call: RecordedCall, request: bytes, reply: bytes) -> None:
        if trace.dropped:
            return
        trace.used = self._clock()
        size = len(request) + len(reply)
        fits = trace.total + size <= self.limits.max_session_bytes and size <= self.limits.max_memory_bytes // 2
        if trace.lost or trace.not_recorded or not fits:
            trace.not_recorded += 1  # once one is left out, so are all behind it: what is kept is a whole beginning
            return
        self._make_room(size)
        if trace.lost:
            trace.not_recorded += 1
            return
        call.request_size, call.reply_size, call.start = len(request), len(reply), trace.end
        trace.end = self._arena.append(trace.blocks, trace.end, request)
        trace.end = self._arena.append(trace.blocks, trace.end, reply)
        trace.calls.append(call)
        trace.total += size
        self._calls += 1
        self._in_memory.pop(trace.id, None)
        self._in_memory[trace.id] = trace

    def texts(self, trace: Trace, call: RecordedCall) -> tuple[bytes, bytes]:
        """Request and reply, as long as they are there: ask for each call of its own."""
        if trace.dropped or trace.lost:
            raise trace_lost(trace.id, trace.lost or "it was dropped meanwhile")
        if call.on_disk is None:
            text = self._arena.read(trace.blocks, call.start, call.size)
        else:
            text = self._spool.read(call.on_disk, call.start, call.size)
        return text[: call.request_size], text[call.request_size :]

    def drop(self, session_id: str) -> int:
        """How many calls it had."""
        trace = self._traces.pop(session_id, None)
        self._gone.pop(session_id, None)
        if trace is None:
            return 0
        count = len(trace.calls)
        self._clear(trace)
        trace.dropped = True
        return count

    def expire(self) -> None:
        """Drops what had no call for the TTL. A call that lasts is one."""
        border = self._clock() - self.limits.ttl_seconds
        for trace in list(self._past(border)):
            self._forget(trace, f"it was dropped after {self.limits.ttl_seconds:g} s without a call")
        if not self._traces:
            self._arena.release()

    def close(self) -> None:
        for session_id in list(self._traces):
            self.drop(session_id)
        self._arena.release()
        self._spool.close()

    def _past(self, border: float) -> Iterator[Trace]:
        for trace in self._traces.values():
            if trace.used > border:
                return
            if not trace.in_flight:
                yield trace

    def _open_new(self, session_id: str, owner: bytes, rollout: str) -> Trace:
        if len(self._traces) >= self.limits.max_sessions:
            self.expire()
        if len(self._traces) >= self.limits.max_sessions:
            oldest = next((one for one in self._traces.values() if not one.in_flight), None)
            if oldest is None:
                busy = f"{len(self._traces)} sessions with a call in flight are being recorded: capture.max_sessions"
                raise RolloutError("model", busy, retryable=True, status=503)
            self._forget(oldest, "it made room for newer sessions: raise capture.max_sessions, or DELETE what is read")
        now = self._clock()
        trace = Trace(session_id, owner, rollout, now, now, lost=self._gone.pop(session_id, ""))
        self._traces[session_id] = trace
        return trace

    def _make_room(self, size: int) -> None:
        """In memory, for a call of that size."""
        blocks = self._arena.needed(size) + 1
        while (
            not self._arena.has_room(blocks)
            or self.memory + blocks * self._arena.size + CALL_OVERHEAD > self.limits.max_memory_bytes
        ):
            if self._in_memory:
                self._spill(next(iter(self._in_memory.values())))
            elif self._on_disk:
                self._lose(next(iter(self._on_disk.values())), NO_ROOM)
            else:
                return  # calls without texts are all that is left

    def _spill(self, trace: Trace) -> None:
        """Its oldest calls to disk. Where there is no room, the least recently used traces go."""
        batch = list(_take_batch(trace.calls[trace.spilled :]))
        start, size = batch[0].start, sum(call.size for call in batch)
        while not self._spool.has_room(self._spool.needed(size)):
            oldest = next(iter(self._on_disk.values()), trace)
            self._lose(oldest, NO_ROOM)
            if oldest is trace:
                return
        try:
            blocks = self._spool.write(self._arena.read(trace.blocks, start, size))
        except OSError as error:
            self._lose(trace, f"its calls could not be written to a temporary file: {error.strerror}")
            return
        for call in batch:
            call.on_disk, call.start = blocks, call.start - start
        trace.spilled += len(batch)
        self._on_disk.pop(trace.id, None)
        self._on_disk[trace.id] = trace
        self._cut(trace, start + size)

    def _cut(self, trace: Trace, length: int) -> None:
        """The first bytes of its text in memory are needed no longer."""
        if trace.spilled == len(trace.calls):
            self._arena.free(trace.blocks)
            trace.blocks, trace.end = [], 0
            del self._in_memory[trace.id]
            return
        count = length // self._arena.size
        self._arena.free(trace.blocks[:count])
        trace.blocks = trace.blocks[count:]
        trace.end -= count * self._arena.size
        for call in trace.calls[trace.spilled :]:
            call.start -= count * self._arena.size

    def _lose(self, trace: Trace, why: str) -> None:
        self._clear(trace)
        trace.lost = why

    def _forget(self, trace: Trace, why: str) -> None:
        why = trace.lost or (why if trace.calls or trace.not_recorded else "")
        self.drop(trace.id)
        if why:
            self._gone[trace.id] = why
            if len(self._gone) > REMEMBERED:
                del self._gone[next(iter(self._gone))]

    def _clear(self, trace: Trace) -> None:
        self._arena.free(trace.blocks)
        for first in _spills(trace.calls[: trace.spilled]):
            self._spool.free(first)
        self._calls -= len(trace.calls)
        trace.blocks, trace.calls = [], []
        trace.end = trace.spilled = 0
        self._in_memory.pop(trace.id, None)
        self._on_disk.pop(trace.id, None)


def trace_lost(session_id: str, why: str) -> RolloutError:
    return RolloutError("lost_session", f"the trace of session {session_id!r} is not whole: {why}")


def owned_by_another(session_id: str) -> RolloutError:
    what = f"the session {session_id!r} belongs to another rollout: take an id of your own, POST /sessions gives one"
    return RolloutError("row", what, status=409)


def _take_batch(calls: list[RecordedCall]) -> Iterator[RecordedCall]:
    size = 0
    for call in calls:
        yield call
        size += call.size
        if size >= SPILL:
            return


def _spills(calls: list[RecordedCall]) -> Iterator[list[int]]:
    """The blocks of each spill, once: calls that went together share them."""
    last: list[int] | None = None
    for call in calls:
        if call.on_disk is not None and call.on_disk is not last:
            last = call.on_disk
            yield last

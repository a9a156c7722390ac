"""State of one rollout on a resources server: kept by an unguessable cookie until verify, close or its TTL."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gym.wire.failures import RolloutError

S = TypeVar("S")


@dataclass(slots=True)
class Session(Generic[S]):
    id: str
    state: S
    used: float


class SessionStore(Generic[S]):
    """Sessions of one process. Ordered by last use, so that expiry looks at the old end only."""

    def __init__(
        self, *, ttl_seconds: float, max_sessions: int = 1_000_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sessions: dict[str, Session[S]] = {}
        self._ttl = ttl_seconds
        self._max = max_sessions
        self._clock = clock

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, state: S, session_id: str = "") -> Session[S]:
        """A new session; given an id, that session with a new state."""
        if len(self._sessions) >= self._max and session_id not in self._sessions:
            raise RolloutError("resources", f"{self._max} sessions are open; close_session or a shorter TTL frees some")
        session = Session(session_id or secrets.token_hex(16), state, self._clock())
        self._sessions.pop(session.id, None)
        self._sessions[session.id] = session
        return session

    def find(self, session_id: str) -> Session[S] | None:
        """The session, moved to the young end; None when it never was, is closed or has expired."""
        session = self._sessions.get(session_id)
        if session is None or self._clock() - session.used > self._ttl:
            return None  # an expired one stays for `take_expired`, which has it closed
        session.used = self._clock()
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session

    def drop(self, session_id: str) -> Session[S] | None:
        return self._sessions.pop(session_id, None)

    def take_expired(self) -> list[Session[S]]:
        """Removes and returns what is past its TTL, so that the server can close each."""
        border = self._clock() - self._ttl
        expired = []
        for session in self._sessions.values():
            if session.used > border:
                break
            expired.append(session)
        for session in expired:
            del self._sessions[session.id]
        return expired

    def take_all(self) -> list[Session[S]]:
        sessions = list(self._sessions.values())
        self._sessions.clear()
        return sessions

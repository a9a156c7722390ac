"""Owners are client processes. One that is silent for a lease's length loses what it owns."""

from __future__ import annotations

import time
from collections.abc import Callable

Owner = tuple[str, str]  # instance, name of the process
LONGEST_SECONDS = 600.0


class Leases:
    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._ends: dict[Owner, float] = {}

    def beat(self, owner: Owner, seconds: float | None = None) -> float:
        """Keeps it; never shortens what it has. How long the lease is from now."""
        length = min(seconds or self._seconds, LONGEST_SECONDS)
        self._ends[owner] = max(self._ends.get(owner, 0.0), self._clock() + length)
        return length

    def drop(self, owner: Owner) -> None:
        self._ends.pop(owner, None)

    def is_over(self, owner: Owner) -> bool:
        """Nobody owns what has no owner's name: its TTL alone ends it."""
        return bool(owner[1]) and self._ends.get(owner, 0.0) <= self._clock()

    def forgive(self, seconds: float) -> None:
        """This process itself was stopped for a while: heartbeats that came meanwhile are still to be read."""
        self._ends = {owner: ends + seconds for owner, ends in self._ends.items()}

    def sweep(self, in_use: set[Owner]) -> None:
        now = self._clock()
        self._ends = {owner: ends for owner, ends in self._ends.items() if ends > now or owner in in_use}

    def __len__(self) -> int:
        return len(self._ends)

"""Owners are client processes. An owner that does not renew its lease in time loses its sandboxes."""

from __future__ import annotations

import time
from collections.abc import Callable

Owner = tuple[str, str]  # instance, name of the process
LONGEST_SECONDS = 600.0


class Leases:
    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._expiry: dict[Owner, float] = {}

    def renew(self, owner: Owner, seconds: float | None = None) -> float:
        """Never shortens a lease. Returns its length from now."""
        length = min(seconds or self._seconds, LONGEST_SECONDS)
        self._expiry[owner] = max(self._expiry.get(owner, 0.0), self._clock() + length)
        return length

    def drop(self, owner: Owner) -> None:
        self._expiry.pop(owner, None)

    def is_over(self, owner: Owner) -> bool:
        """A sandbox without an owner's name has no lease: only its TTL ends it."""
        return bool(owner[1]) and self._expiry.get(owner, 0.0) <= self._clock()

    def extend_all(self, seconds: float) -> None:
        """After this process itself was stopped for a while: renewals that came meanwhile are not read yet."""
        self._expiry = {owner: expires_at + seconds for owner, expires_at in self._expiry.items()}

    def sweep(self, in_use: set[Owner]) -> None:
        now = self._clock()
        self._expiry = {
            owner: expires_at for owner, expires_at in self._expiry.items() if expires_at > now or owner in in_use
        }

    def __len__(self) -> int:
        return len(self._expiry)

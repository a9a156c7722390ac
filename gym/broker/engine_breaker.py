"""A circuit breaker: stops calls to an engine that fails, says why, and lets one probe through after a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from gym.broker.errors import Unavailable

FIRST_OPEN_SECONDS, MAX_OPEN_SECONDS = 1.0, 30.0


class EngineBreaker:
    def __init__(self, threshold: int = 5, clock: Callable[[], float] = time.monotonic) -> None:
        self._threshold = threshold
        self._clock = clock
        self._failures = 0
        self._open_until: float | None = None
        self._open_seconds = FIRST_OPEN_SECONDS
        self._probing = False
        self.why = ""

    @property
    def state(self) -> Literal["closed", "open", "half-open"]:
        if self._open_until is None:
            return "closed"
        return "open" if self._clock() < self._open_until else "half-open"

    def check_open(self) -> None:
        """Raises while the circuit is open. Does not count as the probe."""
        if self.state == "open":
            raise self._refusal()

    def check(self) -> None:
        """Raises while the circuit is open; in half-open the first call is the probe."""
        state = self.state
        if state == "closed":
            return
        if state == "half-open" and not self._probing:
            self._probing = True
            return
        raise self._refusal()

    def succeeded(self) -> None:
        self._failures = 0
        self._open_until = None
        self._open_seconds = FIRST_OPEN_SECONDS
        self._probing = False

    def failed(self, why: str) -> None:
        self.why = why
        self._failures += 1
        if self._open_until is not None:
            if self._probing or self.state == "half-open":
                self._open_seconds = min(self._open_seconds * 2, MAX_OPEN_SECONDS)
                self._open_until = self._clock() + self._open_seconds
        elif self._failures >= self._threshold:
            self._open_until = self._clock() + self._open_seconds
        self._probing = False

    def undecided(self) -> None:
        """The probe ended without a result (refused, cancelled): the next call is the probe."""
        self._probing = False

    def _refusal(self) -> Unavailable:
        left = max((self._open_until or 0.0) - self._clock(), 1.0)
        why = f"the sandbox engine does not answer; no calls are made for {left:.0f} s: {self.why}"
        return Unavailable(why, left)

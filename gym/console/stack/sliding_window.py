"""Figures over the last minute, from sums that only grow: each look is kept, and compared with the oldest one."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

SECONDS: Final = 60.0
LEAST_SECONDS: Final = 0.5  # two looks that are nearer say little


class Growth(NamedTuple):
    seconds: float  # between the two looks; 0: there was only one
    sums: Mapping[str, float]  # by how much each grew

    def rate(self, name: str) -> float | None:
        return self.sums.get(name, 0.0) / self.seconds if self.seconds else None


class SlidingWindow:
    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._looks: deque[tuple[float, Mapping[str, float]]] = deque()

    def add(self, now: float, sums: Mapping[str, float]) -> None:
        since = now - self._looks[-1][0] if self._looks else self._seconds
        if since < LEAST_SECONDS:
            return
        if since >= self._seconds:  # no page asked for so long: what was then says nothing about now
            self._looks.clear()
        self._looks.append((now, sums))
        while len(self._looks) > 2 and now - self._looks[1][0] >= self._seconds:
            self._looks.popleft()

    def growth(self) -> Growth:
        """A sum that became smaller started over: its process is another one. One that is new grew from nothing."""
        if len(self._looks) < 2:
            return Growth(0.0, {})
        (began, before), (ended, after) = self._looks[0], self._looks[-1]
        return Growth(ended - began, {name: _grown(before.get(name, 0.0), value) for name, value in after.items()})


def _grown(before: float, after: float) -> float:
    return after - before if after >= before else after


def quantile(edges: Sequence[float], counts: Sequence[float], share: float) -> float | None:
    """Seconds, from a histogram whose last count lies beyond the last edge: within a bucket it is taken as even."""
    wanted, below = sum(counts) * share, 0.0
    if not wanted:
        return None
    for index, count in enumerate(counts[: len(edges)]):
        if count and below + count >= wanted:
            low = edges[index - 1] if index else 0.0
            return low + (edges[index] - low) * (wanted - below) / count
        below += count
    return edges[-1] if edges else None

"""How many ready sandboxes of one kind to keep, from when such were asked for. Pure: the caller has the clock."""

from __future__ import annotations

import math
from collections import deque
from itertools import pairwise
from typing import Final

SPARE: Final = 1  # beside those that will be asked for while the next one is made


class Forecast:
    """Of one kind."""

    def __init__(self, remembered: int) -> None:
        self._asked: deque[float] = deque(maxlen=remembered)
        self.last = -math.inf  # when one was asked for

    def add(self, at: float) -> None:
        self._asked.append(at)
        self.last = at

    def wanted(self, now: float, *, making: float, window: float, idle: float) -> int:
        """As many as were asked for at most in twice the `making` seconds that a new one takes, and a spare one. None
        after one request alone, as most images are asked for once, nor after a pause longer than `idle` and than twice
        the longest one within the last `window` seconds."""
        while self._asked and self._asked[0] <= now - window:
            self._asked.popleft()
        if len(self._asked) < 2 or now - self.last > max(idle, 2 * self._longest_pause()):
            return 0
        return self._busiest(2 * making) + SPARE

    def _longest_pause(self) -> float:
        return max(later - earlier for earlier, later in pairwise(self._asked))

    def _busiest(self, seconds: float) -> int:
        asked, first, busiest = tuple(self._asked), 0, 0
        for number, at in enumerate(asked):
            while at - asked[first] > seconds:
                first += 1
            busiest = max(busiest, number - first + 1)
        return busiest

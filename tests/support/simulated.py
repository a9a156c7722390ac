"""An event loop whose clock moves on as soon as nothing can run: hours of waiting in a second, the same each time."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._selector_of_ours = _Selector(self)
        self.now = 0.0
        super().__init__(self._selector_of_ours)

    def time(self) -> float:
        return self.now


class _Selector(selectors.DefaultSelector):
    """Waiting takes no time: it sets the clock."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if not found and timeout is None:
            raise RuntimeError("nothing will ever happen again: every task waits for another")
        if not found and timeout:
            self._loop.now += timeout
        return found


def simulate(work: Coroutine[Any, Any, T], seed: int = 0) -> T:
    """Runs it to its end in simulated time, with the same chance for the same seed."""
    random.seed(seed)
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(work)

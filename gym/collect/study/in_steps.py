"""Long counts in steps of a few milliseconds: who runs one may stop between two of them and go on later."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Generic, TypeVar

Value = TypeVar("Value")
Steps = Generator[None, None, Value]
STEP = 2048  # of what takes about a microsecond each


def finish(steps: Steps[Value]) -> Value:
    """All of them at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def gather(values: Iterable[Value], step: int = STEP) -> Steps[list[Value]]:
    found = []
    for count, value in enumerate(values, 1):
        found.append(value)
        if not count % step:
            yield
    return found


class Unfinished(Generic[Value]):
    """What one question begins and others go on with."""

    def __init__(self, steps: Steps[Value]) -> None:
        self._steps = steps
        self.found: Value | None = None

    def go_on(self, is_over: Callable[[], bool]) -> Value | None:
        """One step at least; None where more are left."""
        while self.found is None:
            try:
                next(self._steps)
            except StopIteration as end:
                self.found = end.value
            else:
                if is_over():
                    break
        return self.found

"""Python's collector of circles of objects, which looks as rarely as it finds some.

Calls of ours leave none behind, but thousands in flight are as many new objects as a leak would be. With a look after
each 2,000 new ones, as is usual, the looks took a third of an agent's CPU while 2,000 rollouts were in flight.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

MAX_NEW_OBJECTS: Final = 50_000  # new objects between two looks
WORTH: Final = 0.05  # of the objects between two looks: who leaves more in circles gets the usual looks again


class RareCollections:
    """Of this process. Each look that finds next to nothing doubles the way to the next one."""

    def __init__(self) -> None:
        self._usual = gc.get_threshold()

    def start(self) -> None:
        if self._usual[0]:  # else nothing is looked for
            gc.callbacks.append(self._adapt)

    def stop(self) -> None:
        if self._adapt in gc.callbacks:
            gc.callbacks.remove(self._adapt)
            gc.set_threshold(*self._usual)

    def _adapt(self, phase: Literal["start", "stop"], info: dict[str, Any]) -> None:
        if phase == "start":
            return
        before = gc.get_threshold()[0]
        found = info["collected"] + info["uncollectable"]
        between = self._usual[0] if found > before * WORTH else max(min(before * 2, MAX_NEW_OBJECTS), self._usual[0])
        if between != before:
            gc.set_threshold(between, *self._usual[1:])


@contextmanager
def rare_collections() -> Iterator[None]:
    """For a process that is not ours alone. What is there already is not looked at meanwhile: modules, most of it."""
    rare = RareCollections()
    rare.start()
    ours = not gc.get_freeze_count()
    if ours:
        gc.freeze()
    try:
        yield
    finally:
        if ours:
            gc.unfreeze()
        rare.stop()

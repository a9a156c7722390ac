"""The library rolls with Python's one random generator: each game gets its own state of it while it moves.

A thousand games in one process are as independent, and as repeatable, as a thousand processes.
"""

import random
from array import array
from collections.abc import Iterator
from contextlib import contextmanager


class Chance:
    """Of one game. Its state is packed: 2.5 KB instead of 24 KB of whole numbers."""

    __slots__ = ("_gauss", "_numbers", "_version")

    def __init__(self, seed: int | None) -> None:
        self._keep(random.Random(seed))

    @contextmanager
    def lent(self) -> Iterator[None]:
        """No `await` in here: another game would roll with this one's dice."""
        numbers = array("I", self._numbers)
        random.setstate((self._version, tuple(numbers), self._gauss))
        try:
            yield
        finally:
            self._keep(random)

    def _keep(self, source: object) -> None:
        self._version, numbers, self._gauss = source.getstate()  # type: ignore[attr-defined]
        self._numbers = array("I", numbers).tobytes()

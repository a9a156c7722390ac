"""Patterns that rows bring along, run in processes of their own: one that never ends is killed there.

Python's `re` neither stops nor lets go of the interpreter, so neither a thread nor a cap on sizes would be a guard.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gym.server.workers import WorkerOutOfMemory, WorkerRaised, Workers, WorkerTimeout

CPU_SECONDS = 1.0  # a sane pattern needs microseconds; CPU time, so that a busy machine changes no reward
MEMORY = 1 << 30
FOLDER = Path(__file__).with_name(
    "in_workers"
)  # apart: a worker must not find our `http.py` where it looks for Python's


class BadPattern(Exception):
    """Not a regular expression."""


class SlowPattern(Exception):
    """Took too much on this text."""


class Patterns:
    """Two processes, started for the first pattern; one that had to be killed is replaced."""

    def __init__(self, cpu_seconds: float = CPU_SECONDS) -> None:
        self._cpu_seconds = cpu_seconds
        self._workers = Workers("matching", timeout=cpu_seconds, memory=MEMORY, folder=FOLDER)

    async def last_match(self, pattern: str, text: str) -> list[str | None] | None:
        """The groups of the last match (all of it where there are none), letter case ignored; None without a match."""
        groups: list[str | None] | None = await self._search("last_match", pattern, text)
        return groups

    async def last_text(self, pattern: str, text: str) -> str | None:
        """The last match's first group that is not blank, or all of it; letter case counts, `.` and `^` know lines."""
        found: str | None = await self._search("last_text", pattern, text)
        return found

    async def _search(self, function: str, pattern: str, text: str) -> Any:
        try:
            return await self._workers.call(function, pattern, text)
        except WorkerRaised as error:
            raise BadPattern(error.message) from None
        except WorkerTimeout:
            raise SlowPattern(f"took more than {self._cpu_seconds:g} s of CPU time on this answer") from None
        except WorkerOutOfMemory:
            raise SlowPattern(f"needed more than {MEMORY >> 20} MB of memory on this answer") from None

    async def close(self) -> None:
        await self._workers.close()

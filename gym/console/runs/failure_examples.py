"""What the failures of a run say: the messages of each kind, with where the first of them stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

MAX_MESSAGES: Final = 100  # of one kind that are counted apart
MAX_SHOWN: Final = 3


@dataclass(slots=True)
class _Message:
    line: int  # of the first failure that says it, as an editor counts
    count: int = 0


class FailureExamples:
    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, _Message]] = {}

    def take(self, failures: Iterable[tuple[str, str, int]]) -> None:
        """(kind, message, line)."""
        for kind, message, line in failures:
            known = self._kinds.setdefault(kind, {})
            if message in known or len(known) < MAX_MESSAGES:
                known.setdefault(message, _Message(line)).count += 1

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The most frequent ones."""
        known = sorted(self._kinds.get(kind, {}).items(), key=lambda pair: -pair[1].count)
        return [{"message": text, "count": one.count, "line": one.line} for text, one in known[:MAX_SHOWN]]

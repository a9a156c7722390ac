"""What one server process has done so far, for `/healthz`: calls served and how long they took, calls made to others.

Counted by the process itself, because inside a stack no call goes through the router.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gym.http.open_files import OPEN_FILES

EDGES: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
STATM: Final = Path("/proc/self/statm")


@dataclass(slots=True)
class CallCounts:
    began: int = 0  # those that ended, and those under way: their callers count them so
    failed: int = 0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(EDGES) + 1))
    instances: int = 1  # that live in this process: its use is reported as equal parts of theirs

    def add(self, seconds: float, status: int) -> None:
        self.buckets[bisect_left(EDGES, seconds)] += 1
        self.failed += status >= 500

    def view(self, in_flight: int, asked: Mapping[str, int]) -> dict[str, Any]:
        """Sums since the process began; who wants a rate looks twice."""
        took = {"edges": EDGES, "buckets": self.buckets}
        usage = {name: value / self.instances for name, value in read_usage().items()}
        at_once = {"most_at_once": OPEN_FILES.max_connections} if OPEN_FILES.max_connections else {}
        calls = {"in_flight": in_flight, **at_once, "began": self.began, "failed": self.failed}
        return {**calls, **took, "asked": dict(asked), **usage}


def read_usage() -> dict[str, float]:
    """Of this process, and the processor time of its children that have ended. No memory where there is no /proc."""
    times = os.times()
    usage: dict[str, float] = {"cpu_seconds": round(sum(times[:4]), 2)}
    with suppress(OSError, ValueError, IndexError):
        usage["memory"] = int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return usage


Asked = Counter[str]  # calls made, by the instance that was asked

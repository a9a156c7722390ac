"""What an audit measures: percentiles, memory, and whether memory grows or only wobbles."""

from __future__ import annotations

import gc
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LEAK_PER_VERIFY = 1024.0  # bytes; an echo of a row kept for ever is more
LEAK_IN_ALL = 3 << 20  # below it a slope says nothing: allocators take memory in steps


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@contextmanager
def collect_only_new() -> Iterator[None]:
    """Collections inside look at nothing that was there before: over a whole program each takes 0.05 to 0.5 s."""
    was_frozen = gc.get_freeze_count() > 0  # by a process that has more of its own to leave alone, as a run of tests
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if not was_frozen:
            gc.unfreeze()


def resident_bytes() -> int:
    """Of this process and those it started, after a collection. Where the system tells the peak only, the peak."""
    gc.collect()
    pages = _pages(os.getpid())
    if pages:
        return pages * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _pages(process: int) -> int:
    """With its children's, and theirs; 0 for one that has just gone."""
    folder = Path(f"/proc/{process}")
    try:
        own = int((folder / "statm").read_text().split()[1])
        children = [one.read_text().split() for one in folder.glob("task/*/children")]
    except OSError:
        return 0
    return own + sum(_pages(int(child)) for some in children for child in some)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the straight line that fits best."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def is_leak(points: Sequence[tuple[float, float]]) -> bool:
    """Memory that grows with every verify, in amounts that are not wobble. The first third is warming up."""
    settled = points[len(points) // 3 :]
    grown = slope(settled) * (settled[-1][0] - settled[0][0])
    return slope(settled) > LEAK_PER_VERIFY and grown > LEAK_IN_ALL

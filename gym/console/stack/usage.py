"""Memory and processor time of processes on this machine, for those that do not tell it themselves."""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")


def read_process(pid: int) -> tuple[int, float] | None:
    """(bytes of memory, seconds of processor time); None where there is no such process of ours, or no /proc."""
    try:
        pages = int((PROC / str(pid) / "statm").read_text().split()[1])
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError, IndexError):
        return None
    ticks = sum(int(one) for one in fields[11:15])  # its own, and those of its children that have ended
    return pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK")

"""Memory and descriptors of processes by /proc, and whether they grew more than a day's work explains."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from gym.runtime.identity import Identity

SPARE_BYTES: Final = 64 << 20
SPARE_FACTOR: Final = 1.5
SPARE_DESCRIPTORS: Final = 64


class Usage(NamedTuple):
    memory: int  # bytes, resident
    descriptors: int | None  # None: of another user


def measure_usage(processes: Mapping[str, Iterable[Identity]]) -> dict[str, Usage]:
    return {name: found for name, group in processes.items() if (found := _of_group(group)) is not None}


def find_leaks(before: Mapping[str, Usage], after: Mapping[str, Usage], at_once: int) -> list[str]:
    """Idle connections stay open for a while: of two equal loads, twice as many as are under way at once may differ."""
    found = []
    for name in before.keys() & after.keys():
        old, new = before[name], after[name]
        if new.memory > max(old.memory * SPARE_FACTOR, old.memory + SPARE_BYTES):
            found.append(f"{name}: {old.memory >> 20} MB before, {new.memory >> 20} MB after")
        spare = SPARE_DESCRIPTORS + 2 * at_once
        if old.descriptors is not None and new.descriptors is not None and new.descriptors > old.descriptors + spare:
            found.append(f"{name}: {old.descriptors} descriptors before, {new.descriptors} after")
    return sorted(found)


def _of_group(group: Iterable[Identity]) -> Usage | None:
    seen = [found for one in group if (found := _of_process(one.pid)) is not None]
    if not seen:
        return None
    counts = [one.descriptors for one in seen if one.descriptors is not None]
    return Usage(sum(one.memory for one in seen), sum(counts) if len(counts) == len(seen) else None)


def _of_process(pid: int) -> Usage | None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    memory = next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:")), 0)
    try:
        return Usage(memory, len(os.listdir(f"/proc/{pid}/fd")))  # noqa: PTH208  (names only)
    except OSError:
        return Usage(memory, None)

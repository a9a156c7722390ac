"""Memory, processors and process counts of one local sandbox, where this user may make control groups."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final, NamedTuple

from gym.wire.sandbox import Limits

PERIOD: Final = 100_000  # microseconds, of which a group may have its share
CONTROLLERS: Final = ("memory", "pids", "cpu")
ROOT: Final = Path("/sys/fs/cgroup")


class CgroupRoots(NamedTuple):
    """Where groups may be made: one folder a controller (version 1), or the same for all (version 2)."""

    memory: Path
    pids: Path
    cpu: Path
    version: int


class ControlGroup(NamedTuple):
    folders: tuple[Path, ...]
    events: Path  # says how often the kernel killed for memory

    @property
    def procs_files(self) -> tuple[Path, ...]:
        return tuple(folder / "cgroup.procs" for folder in self.folders)

    def count_ooms(self) -> int:
        with contextlib.suppress(OSError, ValueError):
            for line in self.events.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
        return 0

    def remove(self, timeout: float = 5.0) -> None:
        """The kernel takes a moment to let go of processes that have just ended."""
        deadline = time.monotonic() + timeout
        for folder in self.folders:
            while folder.is_dir():
                try:
                    folder.rmdir()
                except OSError:
                    if time.monotonic() >= deadline:
                        break
                    time.sleep(0.01)


def find_cgroup_roots(own: str | None = None, root: Path = ROOT) -> CgroupRoots | None:
    """Where this process may make groups, tried by making one; None where it may not."""
    try:
        text = Path("/proc/self/cgroup").read_text() if own is None else own
    except OSError:
        return None
    paths = dict(_parse_line(line) for line in text.splitlines() if line.count(":") >= 2)
    roots = _version_1(paths, root) or _version_2(paths, root)
    return roots if roots is not None and _may_make(roots) else None


def make_group(roots: CgroupRoots, name: str, limits: Limits) -> ControlGroup:
    folders = tuple(dict.fromkeys(folder / name for folder in (roots.memory, roots.pids, roots.cpu)))
    events = roots.memory / name / ("memory.oom_control" if roots.version == 1 else "memory.events")
    group = ControlGroup(folders, events)
    try:
        for folder in folders:
            folder.mkdir(exist_ok=True)
        for path, value in _settings(roots, name, limits):
            path.write_text(value)
        for path in _no_swap(roots, name):
            with contextlib.suppress(OSError):  # not every kernel counts swap
                path.write_text(str(limits.memory) if roots.version == 1 else "0")
    except OSError:
        group.remove(timeout=0)
        raise
    return group


def find_group(roots: CgroupRoots, name: str) -> ControlGroup:
    folders = tuple(dict.fromkeys(folder / name for folder in (roots.memory, roots.pids, roots.cpu)))
    return ControlGroup(folders, roots.memory / name / "memory.events")


def _parse_line(line: str) -> tuple[str, str]:
    _, controllers, path = line.split(":", 2)
    return controllers, path.lstrip("/")


def _version_1(paths: dict[str, str], root: Path) -> CgroupRoots | None:
    found = {}
    for controllers, path in paths.items():
        for controller in controllers.split(","):
            if controller in CONTROLLERS:
                found[controller] = root / controller / path
    if len(found) < len(CONTROLLERS):
        return None
    return CgroupRoots(found["memory"], found["pids"], found["cpu"], 1)


def _version_2(paths: dict[str, str], root: Path) -> CgroupRoots | None:
    if "" not in paths:
        return None
    own = root / paths[""]
    parent = own if own == root else own.parent  # a group that holds processes may not share out to children
    try:
        shared = (parent / "cgroup.subtree_control").read_text().split()
    except OSError:
        return None
    return CgroupRoots(parent, parent, parent, 2) if set(CONTROLLERS) <= set(shared) else None


def _may_make(roots: CgroupRoots) -> bool:
    probe = f"gym-probe-{os.getpid()}"
    try:
        make_group(roots, probe, Limits()).remove(timeout=0)
    except OSError:
        return False
    return True


def _settings(roots: CgroupRoots, name: str, limits: Limits) -> tuple[tuple[Path, str], ...]:
    quota = str(max(1000, round(limits.cpus * PERIOD)))
    memory, pids, cpu = roots.memory / name, roots.pids / name, roots.cpu / name
    if roots.version == 1:
        return (
            (memory / "memory.limit_in_bytes", str(limits.memory)),
            (pids / "pids.max", str(limits.pids)),
            (cpu / "cpu.cfs_period_us", str(PERIOD)),
            (cpu / "cpu.cfs_quota_us", quota),
        )
    return (
        (memory / "memory.max", str(limits.memory)),
        (pids / "pids.max", str(limits.pids)),
        (cpu / "cpu.max", f"{quota} {PERIOD}"),
    )


def _no_swap(roots: CgroupRoots, name: str) -> tuple[Path, ...]:
    file = "memory.memsw.limit_in_bytes" if roots.version == 1 else "memory.swap.max"
    return (roots.memory / name / file,)

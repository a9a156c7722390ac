"""Waiting until a file that servers run from changes: polled, for a watcher is a dependency more."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from gym.plan.model import Plan

LOOK_SECONDS: Final = 0.4
QUIET_SECONDS: Final = 0.3  # an editor writes more than once
SKIPPED: Final = frozenset(
    {"__pycache__", ".git", ".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache", "tests", "data"}
)

Stamps = Mapping[str, int]


def watched_folders(plan: Plan) -> tuple[Path, ...]:
    """Where the plan's servers come from."""
    return tuple(dict.fromkeys(one.directory for one in plan.services if one.directory is not None))


def wait_for_change(
    folders: tuple[Path, ...],
    *,
    files: tuple[Path, ...] = (),
    since: Stamps | None = None,
    stop: threading.Event | None = None,
) -> tuple[str, ...]:
    """The paths that changed, from now on or `since` the stamps were taken, once they are quiet; none at a `stop`."""
    stop = stop or threading.Event()
    before = take_stamps(folders, files) if since is None else since
    while True:
        if stop.wait(LOOK_SECONDS):
            return ()
        now = take_stamps(folders, files)
        if now != before:
            return _settled(folders, files, before, now, stop)


def _settled(
    folders: tuple[Path, ...], files: tuple[Path, ...], before: Stamps, now: Stamps, stop: threading.Event
) -> tuple[str, ...]:
    while not stop.wait(QUIET_SECONDS):
        later = take_stamps(folders, files)
        if later == now:
            break
        now = later
    return tuple(sorted(path for path in {*before, *now} if before.get(path) != now.get(path)))


def take_stamps(folders: tuple[Path, ...], files: tuple[Path, ...] = ()) -> Stamps:
    """What the files are like now."""
    found = dict(stamp for folder in folders for stamp in _walk(folder))
    for path in files:
        if path.is_file():
            found[str(path)] = path.stat().st_mtime_ns
    return found


def _walk(folder: Path) -> Iterator[tuple[str, int]]:
    for where, names, files in os.walk(folder):
        names[:] = [name for name in names if name not in SKIPPED]
        for name in files:
            path = Path(where, name)
            try:
                yield str(path), path.stat().st_mtime_ns
            except OSError:
                continue  # gone between listing and looking

"""Waiting until a file that servers run from is saved: polled, for a watcher is a dependency more."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from gym.plan.model import Plan

LOOK_SECONDS: Final = 0.1
QUIET_SECONDS: Final = 0.1  # an editor writes more than once
LONGEST_READ: Final = 16 * 1024 * 1024  # of a longer file its time of change has to do
SKIPPED: Final = frozenset(
    {"__pycache__", ".git", ".gym", ".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache", "tests", "data"}
)
NO_SOURCE: Final = (".pyc", "~", ".swp", ".swx", ".tmp")  # what an editor or Python keeps beside what was written
VIM_PROBE: Final = "4913"  # vim makes and removes a file of that name to see whether it may

Stamps = Mapping[str, int]
How = Literal["saved", "new", "removed"]


class SavedFile(NamedTuple):
    path: Path
    how: How


def watched_folders(plan: Plan) -> tuple[Path, ...]:
    """Where the plan's servers come from."""
    return tuple(dict.fromkeys(one.directory for one in plan.services if one.directory is not None))


class WatchedFiles:
    """The files of some folders, and what was in them when their servers got them. A file that is written once more,
    with what it held, is not another one."""

    def __init__(self, folders: tuple[Path, ...], files: tuple[Path, ...] = ()) -> None:
        self._folders, self._files = folders, files
        self._seen = take_stamps(folders, files)
        self._digests = {path: _digest(path, stamp) for path, stamp in self._seen.items()}
        self._given = dict(self._digests)

    def wait(self, stop: threading.Event | None = None) -> tuple[Path, ...]:
        """What was written, once it is quiet; none at a `stop`. `changed` tells which of it is another file now."""
        before = self._seen
        paths = wait_for_change(self._folders, files=self._files, since=before, stop=stop)
        self._seen = take_stamps(self._folders, self._files)
        for path in {*paths, *self._seen.keys() - before.keys(), *before.keys() - self._seen.keys()}:
            if path in self._seen:
                self._digests[path] = _digest(path, self._seen[path])
            else:
                self._digests.pop(path, None)
        return tuple(Path(path) for path in paths)

    def look_at(self, folders: tuple[Path, ...], files: tuple[Path, ...] = ()) -> None:
        """At these from now on; the servers of those that are new get them as they are now."""
        self._folders, self._files = folders, files
        there = take_stamps(folders, files)
        for path in there.keys() - self._seen.keys():
            self._given[path] = self._digests[path] = _digest(path, there[path])
        kept = {path for path in self._seen if path in there or any(Path(path).is_relative_to(one) for one in folders)}
        for known in (self._digests, self._given):
            for path in known.keys() - there.keys() - kept:
                del known[path]
        self._seen = {**there, **{path: self._seen[path] for path in kept}}

    def changed(self) -> tuple[SavedFile, ...]:
        """Those that are not what the servers got."""
        paths = sorted({*self._given, *self._digests})
        return tuple(
            SavedFile(Path(path), self._how(path)) for path in paths if self._given.get(path) != self._digests.get(path)
        )

    def give(self) -> None:
        """The servers get them as they were at the last `wait`."""
        self._given = dict(self._digests)

    def _how(self, path: str) -> How:
        return "new" if path not in self._given else "saved" if path in self._digests else "removed"


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
        now = take_stamps(folders, files)
        if now != before:
            return _settled(folders, files, before, now, stop)
        if stop.wait(LOOK_SECONDS):
            return ()


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
            if name == VIM_PROBE or name.startswith(".") or name.endswith(NO_SOURCE):
                continue
            path = Path(where, name)
            try:
                yield str(path), path.stat().st_mtime_ns
            except OSError:
                continue  # gone between listing and looking


def _digest(path: str, stamp: int) -> str:
    try:
        with Path(path).open("rb") as file:
            if os.fstat(file.fileno()).st_size > LONGEST_READ:
                return f"at {stamp}"
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return f"unreadable at {stamp}"

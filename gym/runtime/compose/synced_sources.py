"""Copies of servers' folders, for containers that read their sources from there: a change needs no build.

A copy, for the folder itself may be private to its owner, hold secrets that no image gets, and be half saved when a
container happens to restart.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from gym.plan.model import Plan, Service
from gym.runtime.compose.image_sources import ImageSources, server_files

READABLE: Final = 0o644
RUNNABLE: Final = 0o755


def find_synced(plan: Plan, sources: ImageSources) -> tuple[str, ...]:
    """The instances that can run from a copy: those of the SDK whose image is their folder, laid out by us."""
    return tuple(one.name for one in plan.services if _is_plain(one, sources))


def sync_sources(folder: Path, plan: Plan, names: Collection[str]) -> None:
    """Make the copies below `folder` what the folders of these instances are; those of others are removed."""
    wanted = {one.slug: one for one in plan.services if one.name in names}
    for left in [one for one in _listed(folder) if one.name not in wanted]:
        shutil.rmtree(left, ignore_errors=True)
    for slug, service in wanted.items():
        assert service.directory is not None
        _copy_tree(service.directory, folder / slug)


def forget_synced(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _is_plain(service: Service, sources: ImageSources) -> bool:
    source = sources.servers.get(service.name)
    ours = service.launch == "sdk" and service.directory is not None and not service.image_digest
    return ours and source is not None and source.own is None and source.context == service.directory


def _copy_tree(source: Path, target: Path) -> None:
    """The folder stays the same one: it is mounted."""
    _make_folder(target)
    files = {path.relative_to(source): path for path in server_files(source)}
    for path in _listed_deep(target):
        name = path.relative_to(target)
        if path.is_dir() and not path.is_symlink():
            if not any(name in one.parents for one in files):
                shutil.rmtree(path, ignore_errors=True)
        elif name not in files:
            path.unlink(missing_ok=True)
    for name, path in files.items():
        _copy_file(path, target / name, target)


def _copy_file(source: Path, target: Path, root: Path) -> None:
    """A reader sees the old one or the new one, never a part of it."""
    mode = RUNNABLE if source.stat().st_mode & 0o111 else READABLE
    data = source.read_bytes()
    if target.is_file() and target.stat().st_mode & 0o777 == mode and target.read_bytes() == data:
        return
    for folder in reversed([one for one in target.parents if root in one.parents]):
        _make_folder(folder)
    unfinished = target.with_name(f".{target.name}.unfinished")
    unfinished.write_bytes(data)
    unfinished.chmod(mode)
    unfinished.replace(target)


def _make_folder(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(RUNNABLE)  # to be entered by the user inside, whatever our umask


def _listed(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _listed_deep(folder: Path) -> Iterable[Path]:
    return sorted(folder.rglob("*")) if folder.is_dir() else []

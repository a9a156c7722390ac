"""Environments and other files of the cache folder that nothing uses any more. All of them can be rebuilt."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from gym.runtime.local.pid_file import read_notes
from gym.venvs import BYTECODE, MARK, alone

KEPT_SECONDS: Final = 7 * 24 * 3600.0  # what was used this week will be wanted again
FRESH_SECONDS: Final = 600.0  # a command may have chosen it a moment ago
ENVIRONMENT: Final = "environment"
SCIENCE: Final = "science-"  # of sandboxes, whose processes come and go
SHARED_FOLDERS: Final = {"wheels": "wheel of the SDK", "base": "build context"}  # all but the newest are history


class Leftover(BaseModel):
    """One thing that `gym prune` removes."""

    model_config = ConfigDict(frozen=True)

    kind: str
    name: str
    bytes: int
    used: float  # when it was last used or made, in seconds since the epoch
    path: Path | None = None
    images: tuple[str, ...] = ()  # its names on the engine, or its id


def find_cache_leftovers(cache: Path, now: float, *, everything: bool) -> list[Leftover]:
    """`everything`: however lately it was used, if nothing uses it now."""
    before = now - (FRESH_SECONDS if everything else KEPT_SECONDS)
    candidates = [one for one in (*_environments(cache), *_shared(cache)) if one.used < before]
    used = used_environments(cache / "envs") if any(one.kind == ENVIRONMENT for one in candidates) else set()
    left = [one for one in candidates if one.kind != ENVIRONMENT or one.name not in used]
    return [one.model_copy(update={"bytes": size_of_folder(one.path)}) for one in left if one.path]


def remove_cache_leftover(cache: Path, one: Leftover) -> None:
    """Renamed first: half of an environment is never taken for a whole one."""
    assert one.path is not None
    with alone(cache, one.path.name) if one.path.parent == cache / "envs" else contextlib.nullcontext():
        doomed = one.path.with_name(f".{one.path.name}.{os.getpid()}")
        one.path.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def used_environments(envs: Path) -> set[str]:
    """Names of those that a process of this machine runs from, or a local stack would start a server in."""
    named = {path for note in read_notes() for path in note.record.pythons}
    used = {name for text in (*named, *_command_lines()) for name in _names_in(text, f"{envs}{os.sep}")}
    if any(True for _ in read_notes()):
        used |= {path.name for path in envs.glob(f"{SCIENCE}*")}
    return used


def _environments(cache: Path) -> Iterator[Leftover]:
    for path in sorted((cache / "envs").glob("*")):
        if path.is_dir() and not path.name.startswith("."):
            mark = path / MARK
            used = _modified(mark if mark.is_file() else path)
            yield Leftover(kind=ENVIRONMENT, name=path.name, bytes=0, used=used, path=path)


def _shared(cache: Path) -> Iterator[Leftover]:
    for name, kind in SHARED_FOLDERS.items():
        folders = sorted((path for path in (cache / name).glob("*") if path.is_dir()), key=_modified)
        for path in folders[:-1]:
            yield Leftover(kind=kind, name=path.name, bytes=0, used=_modified(path), path=path)
    if (path := cache / BYTECODE).is_dir():
        yield Leftover(kind="bytecode", name="of tests and checks", bytes=0, used=_modified(path), path=path)


def size_of_folder(folder: Path) -> int:
    """What its removal frees: a file that has another name elsewhere, as uv's cache gives it, stays there."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found = Path(parent, name).lstat()
                total += found.st_blocks * 512 if found.st_nlink == 1 else 0
    return total


def _command_lines() -> Iterable[str]:
    if sys.platform != "linux":
        argv = ["ps", "-axo", "command="]
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "maps"):  # a library that is loaded says it even where the command line does not
            with contextlib.suppress(OSError):
                found.append((path / name).read_bytes().replace(b"\0", b"\n").decode("utf-8", "replace"))
    return found


def _names_in(text: str, prefix: str) -> Iterator[str]:
    for part in text.split(prefix)[1:]:
        yield part.partition(os.sep)[0].split("\n")[0]


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()

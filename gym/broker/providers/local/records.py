"""What a local sandbox keeps on disk: its files, and a record of its owner by which a later broker removes them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from gym.broker.provider import Tags
from gym.files import read_object, write_atomically
from gym.wire.failures import RolloutError

SAFE: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$")


class SandboxFolder(NamedTuple):
    """The folder of one sandbox: `files` is what it may write, and what a fork copies."""

    root: Path

    @property
    def files(self) -> Path:
        return self.root / "files"

    @property
    def record(self) -> Path:
        return self.root / "record.json"

    @property
    def devices(self) -> Path:
        return self.root / "dev"

    @property
    def log(self) -> Path:
        return self.root / "log"


def folder_of_sandbox(folder: Path, stack: str, id: str) -> SandboxFolder:
    for name in (stack, id):
        if not SAFE.match(name):
            raise RolloutError("sandbox", f"{name!r} cannot name a sandbox", retryable=False, status=422)
    return SandboxFolder(folder / stack / "sandboxes" / id)


def write_record(folders: SandboxFolder, tags: Tags, pid: int, group: str) -> None:
    record = {"tags": tags._asdict(), "pid": pid, "started": started_at(pid), "group": group}
    write_atomically(folders.record, orjson.dumps(record).decode())


def read_record(folders: SandboxFolder) -> dict[str, Any]:
    return read_object(folders.record)


def left_behind(folder: Path, stack: str) -> Iterator[SandboxFolder]:
    with contextlib.suppress(OSError):
        for root in sorted((folder / stack / "sandboxes").iterdir()):
            yield SandboxFolder(root)


def started_at(pid: int) -> str:
    """When a process began, as the kernel counts it: tells it from a later one of the same number."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def end_process(record: dict[str, Any]) -> None:
    """The helper of a record, if it still is the same process."""
    pid, started = record.get("pid"), record.get("started")
    if isinstance(pid, int) and pid > 1 and started and started_at(pid) == started:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def tree_of(pid: int) -> tuple[int, ...]:
    """A process and everything below it."""
    parents: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                text = Path(entry.path, "stat").read_text()
                parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        found.append(waiting.pop())
        waiting += parents.get(found[-1], [])
    return tuple(found)


def stop_tree(pid: int) -> None:
    """SIGSTOP to all of it, until no new process is found: a stopped one cannot fork."""
    stopped: set[int] = set()
    while fresh := set(tree_of(pid)) - stopped:
        signal_all(fresh, signal.SIGSTOP)
        stopped |= fresh


def signal_all(pids: set[int] | tuple[int, ...], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def remove_tree(path: Path) -> None:
    """Whatever modes its folders were given."""

    def open_up(function: Callable[..., Any], name: str, error: Any) -> None:
        parent = Path(name).parent
        with contextlib.suppress(OSError):
            parent.chmod(stat.S_IRWXU)
            if not Path(name).is_symlink() and Path(name).is_dir():
                Path(name).chmod(stat.S_IRWXU)
                shutil.rmtree(name, onerror=lambda *_: None)
            else:
                Path(name).unlink()

    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(path, onerror=open_up)
    shutil.rmtree(path, ignore_errors=True)

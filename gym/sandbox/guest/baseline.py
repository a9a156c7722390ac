"""Compares a sandbox with its state before a program ran in it: everything that a program could have changed.

Writable folders are emptied and their times set; where anything else differs, the sandbox is thrown away.
"""

# ruff: noqa: PTH101, PTH108, PTH114, PTH115, PTH116, PTH118, PTH123, PTH208, SIM105
# (any Python from 3.8 on, and looked at after each program)

from __future__ import annotations

import os
import stat
from typing import Any

from gym.sandbox.guest.cleanup import clean

VIRTUAL = ("proc", "sysfs", "cgroup", "cgroup2", "securityfs", "debugfs", "tracefs", "bpf")
OF_A_PROCESS = ("oom_score_adj", "coredump_filter", "timerslack_ns")
SCHEDULING = (15, 16, 37, 38)  # priority, nice, real-time priority, policy: where they stand behind the name
MAX_TEXT = 300  # of what differs
OBJECTS = ("/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg")


class Baseline:
    """The state of a sandbox before anything ran in it."""

    def __init__(self) -> None:
        self.mounted, self.roots = read_mounts()
        paths = {path: os.lstat(path).st_mode for path in self.walk()}
        writable = [path for path in paths if not stat.S_ISLNK(paths[path]) and os.access(path, os.W_OK)]
        self.kept = {path: set(os.listdir(path)) for path in writable if stat.S_ISDIR(paths[path]) and renew(path)}
        others = [path for path in writable if path not in self.kept]
        self.touched = [path for path in others if stat.S_ISCHR(paths[path]) or stat.S_ISDIR(paths[path])]
        self.pids = [name for name in os.listdir("/proc") if name.isdigit()]
        self.renew()
        self.before = self.look()

    def wipe(self) -> str:
        """Cleans up. Returns what differs from the start, or why it could not be cleaned or read."""
        try:
            clean(self.kept)
            self.renew()
            now = self.look()
        except (OSError, RecursionError) as error:
            return repr(error)[:MAX_TEXT]
        if now == self.before:
            return ""
        names = [name for name in {**now, **self.before} if now.get(name) != self.before.get(name)]
        return ascii(names)[:MAX_TEXT]

    def renew(self) -> None:
        """Sets times that a program could have changed."""
        for folder in self.kept:
            if not renew(folder):
                raise OSError(folder)
        for path in self.touched:
            os.utime(path)

    def look(self) -> dict[str, Any]:
        found: dict[str, Any] = {path: self.state(path) for path in self.walk()}
        found.update((name, os.lstat(f"/proc/{name}").st_mode) for name in os.listdir("/proc") if not name.isdigit())
        found.update((pid, state_of_process(pid)) for pid in self.pids)
        found.update((path, read(path)) for path in OBJECTS)
        found["nodename"] = os.uname()[1]
        return found

    def walk(self) -> list[str]:
        """Everything below `roots`, and they themselves; not what is mounted on it."""
        found = list(self.roots)
        for path in found:
            try:
                below = os.listdir(path) if stat.S_ISDIR(os.lstat(path).st_mode) else ()
            except OSError:
                continue  # who may not look into it may not write there
            inside = (os.path.join(path, name) for name in below)
            found += (one for one in inside if one not in self.mounted)
        return found

    def state(self, path: str) -> tuple[Any, ...]:
        info = os.lstat(path)
        target = os.readlink(path) if stat.S_ISLNK(info.st_mode) else ""
        lasting = (info.st_mode, info.st_uid, info.st_gid, info.st_rdev, target, attributes(path))
        if path in self.kept or path in self.touched:
            return lasting
        times = (info.st_mtime_ns, info.st_ctime_ns, info.st_atime_ns if stat.S_ISREG(info.st_mode) else 0)
        return (*lasting, info.st_ino, info.st_nlink, info.st_size, times)


def read_mounts() -> tuple[set[str], list[str]]:
    """Everything that is mounted, and of it where anything could be written that is not a virtual file system."""
    mounted, writable = set(), []
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            mount, _, system = line.partition(b" - ")
            path = mount.split()[4].decode("unicode_escape")
            mounted.add(path)
            hidden = system.split()[0].decode() in VIRTUAL or path.startswith(("/proc/", "/sys/"))
            if not hidden and not os.statvfs(path).f_flag & os.ST_RDONLY:
                writable.append(path)
    return mounted, writable


def renew(folder: str) -> bool:
    """False where nothing can be made."""
    path = os.path.join(folder, "renewed")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        os.unlink(path)
    except OSError:
        return False
    os.listdir(folder)
    return True


def attributes(path: str) -> tuple[Any, ...]:
    try:
        names = os.listxattr(path, follow_symlinks=False)
        return tuple((name, os.getxattr(path, name, follow_symlinks=False)) for name in names)
    except (AttributeError, OSError):
        return ()


def state_of_process(pid: str) -> tuple[Any, ...]:
    fields = read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return (*(fields[at : at + 1] for at in SCHEDULING), *(read(f"/proc/{pid}/{name}") for name in OF_A_PROCESS))


def read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""

"""The log files of a stack: one a process, capped by one rotation, read back merged and followed across both."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import orjson

from gym.runtime.local.home import Home
from gym.runtime.unknown_name import no_replica, unknown
from gym.wire.stack_names import SANDBOX

MAX_BYTES = 32 * 1024 * 1024
TAIL_BYTES = 256 * 1024
LOOK_EVERY = 0.2  # two stats a file; no reader is faster
OWN = ("router", "console", "supervisor")


def read_logs(
    home: Home, names: tuple[str, ...], *, follow: bool, tail: int, runs: Callable[[], bool]
) -> Iterator[str]:
    """The last `tail` lines of each process, then, with `follow`, what comes, until the stack no longer runs."""
    wanted = choose_processes(home, names)
    width = max((len(name) for name in wanted), default=0)
    prefix = len(wanted) > 1 or (follow and not names)
    files = {name: LogFile(home.log(name)) for name in wanted}
    for name, file in files.items():
        yield from _prefixed(file.last(tail), name if prefix else "", width)
    while follow:
        over = not runs()
        for name in choose_processes(home, names):
            file = files.setdefault(name, LogFile(home.log(name)))
            yield from _prefixed(file.news(), name if prefix else "", width)
        if over:
            return
        time.sleep(LOOK_EVERY)


def choose_processes(home: Home, names: tuple[str, ...]) -> list[str]:
    """Names of instances and single processes, as names of log files; none means all."""
    known = _known(home)
    if not names:
        return list(dict.fromkeys(process for processes in known.values() for process in processes))
    by_process = {process: (process,) for processes in known.values() for process in processes}
    strange = [name for name in names if name not in known and name not in by_process]
    if strange:
        raise unknown(strange[0], known, by_process)
    if idle := [name for name in names if name not in by_process and not known[name]]:
        raise no_replica(idle[0])
    chosen = [process for name in names for process in known.get(name) or by_process[name]]
    return list(dict.fromkeys(chosen))


def rotate(path: Path, max_bytes: int = MAX_BYTES) -> None:
    """Move a log that grew too long aside, contents first: its writers hold the file itself and append to it."""
    if size_of(path) <= max_bytes:
        return
    with path.open("rb+") as source, path.with_name(f"{path.name}.1").open("wb") as target:
        while chunk := source.read(1 << 20):
            target.write(chunk)
        source.truncate(0)


def begin_logs(home: Home) -> None:
    """A stack that starts shows its own errors, not those of the one before; that one's logs move aside."""
    for path in sorted(home.logs.glob("*.log")):
        rotate(path, max_bytes=0)


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def tail_from(path: Path, start: int, count: int) -> list[str]:
    """The last lines of what stands behind `start`; all counts where the file was cut since."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(start if start <= size else 0, size - TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return lines[-count:] if count else []


class LogFile:
    """A log read forward; a file that was cut is re-read from its start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def last(self, count: int) -> list[str]:
        size = size_of(self._path)
        lines = tail_from(self._path, 0, count)
        self._offset = size
        return lines

    def news(self) -> list[str]:
        size = size_of(self._path)
        if size < self._offset:
            self._offset, self._rest = 0, b""
        if size == self._offset:
            return []
        try:
            with self._path.open("rb") as file:
                return self._take(file)
        except OSError:
            return []

    def _take(self, file: IO[bytes]) -> list[str]:
        file.seek(self._offset)
        found = self._rest + file.read()
        self._offset = file.tell()
        *whole, self._rest = found.split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole]


def _prefixed(lines: list[str], name: str, width: int) -> Iterator[str]:
    for line in lines:
        yield f"{name:<{width}} | {line}" if name else line


def _known(home: Home) -> dict[str, tuple[str, ...]]:
    try:
        plan = orjson.loads(home.plan.read_bytes())
        services, own = plan["services"], (*OWN, SANDBOX) if plan.get("sandbox") else OWN
    except (OSError, ValueError, KeyError):
        plan, services, own = {}, [], OWN
    named = {one["name"]: tuple(_log_of(one, number) for number in range(one["replicas"])) for one in services}
    beside = {f"{one['instance']}.{one['spec']['name']}": (one["slug"],) for one in plan.get("sidecars", ())}
    named |= {f"{one['slug']}-1": (one["process"],) for one in services if one.get("process") and one["replicas"]}
    return named | beside | {name: (name,) for name in own}


def _log_of(service: Mapping[str, Any], number: int) -> str:
    """That of its process, which it may share: each line says which instance it is of."""
    return str(not number and service.get("process") or f"{service['slug']}-{number + 1}")

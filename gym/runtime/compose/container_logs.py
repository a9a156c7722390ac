"""What the containers of a stack wrote, merged line by line; followed until the reader stops, through restarts."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from gym.errors import GymError
from gym.runtime.compose.containers import Container, replica_id

if TYPE_CHECKING:
    from gym.plan.model import Plan

LOOK_SECONDS: Final = 0.5  # a container that starts once more is followed again so soon after
LOOKS: Final = 4  # in a row that find no container running: then none is being restarted
ReadLog = Callable[..., Any]  # as the Engine API's client reads the log of one id
RUNS: Final = ("running", "restarting", "paused")


def read_logs(read: ReadLog, plan: Plan | None, containers: list[Container], tail: int) -> Iterator[str]:
    """The last lines of each, one container after the other."""
    width = _width(containers, plan)
    for one in containers:
        raw: bytes = read(one.id, tail=tail)
        yield from _prefixed(raw.decode("utf-8", "replace").splitlines(), one, plan, len(containers) > 1, width)


def follow_logs(read: ReadLog, plan: Plan | None, find: Callable[[], list[Container]], tail: int) -> Iterator[str]:
    """The last lines of each that is there, then whatever they, and those that follow them, write, until every one of
    them has ended. `find` looks for them once more."""
    follower = _Follower(read, plan, find)
    try:
        yield from follower.lines(tail)
    finally:
        follower.close()


class _Follower:
    def __init__(self, read: ReadLog, plan: Plan | None, find: Callable[[], list[Container]]) -> None:
        self._read_log, self._plan, self._find = read, plan, find
        self._lines: queue.Queue[str] = queue.Queue(maxsize=10_000)
        self._streams: dict[str, Any] = {}  # by container, while its log is read
        self._last: dict[str, str] = {}  # by container: when it wrote its last line that was read
        self._prefix, self._width = False, 0

    def lines(self, tail: int) -> Iterator[str]:
        there = self._find()
        self._prefix, self._width = len(there) > 1, _width(there, self._plan)
        for one in there:
            self._read(one, tail)
        idle, looked = 0, time.monotonic()
        while idle < LOOKS or self._streams:
            with suppress(queue.Empty):
                yield self._lines.get(timeout=LOOK_SECONDS)
            if time.monotonic() - looked >= LOOK_SECONDS:
                idle = 0 if self._look() else idle + 1
                looked = time.monotonic()
        while not self._lines.empty():
            yield self._lines.get_nowait()

    def close(self) -> None:
        for stream in list(self._streams.values()):
            stream.close()

    def _look(self) -> bool:
        """Reads every container that runs or is new. True when one runs."""
        try:
            there = self._find()
        except GymError:  # none is there at this moment
            return False
        running = [one for one in there if one.state in RUNS]
        for one in running:
            if one.id not in self._streams:
                self._read(one, "all")
        return bool(running)

    def _read(self, one: Container, tail: Literal["all"] | int) -> None:
        import docker.errors  # noqa: PLC0415

        last = self._last.get(one.id, "")
        since = int(datetime.fromisoformat(last).timestamp()) if last else None
        try:
            stream = self._read_log(one.id, tail=tail, stream=True, follow=True, timestamps=True, since=since)
        except docker.errors.APIError:  # it is gone, or about to be
            return
        self._streams[one.id] = stream
        threading.Thread(target=self._pump, args=(one, stream), daemon=True).start()

    def _pump(self, one: Container, stream: Any) -> None:
        """What was read before its last end is known by its time."""
        try:
            for line in _lines(stream):
                stamp, _, text = line.partition(" ")
                if stamp > self._last.get(one.id, ""):
                    self._last[one.id] = stamp
                    for shown in _prefixed([text], one, self._plan, self._prefix, self._width):
                        self._lines.put(shown)
        except Exception:  # noqa: BLE001 (whatever closing the stream under the reading thread raises)
            pass
        finally:
            self._streams.pop(one.id, None)


def _lines(chunks: Iterable[Any]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace").rstrip("\r")
    if rest:
        yield rest.decode("utf-8", "replace")


def _width(containers: Iterable[Container], plan: Plan | None) -> int:
    return max((len(replica_id(one, plan)) for one in containers), default=0)


def _prefixed(lines: Iterable[str], one: Container, plan: Plan | None, prefix: bool, width: int) -> Iterator[str]:
    name = f"{replica_id(one, plan):<{width}} | " if prefix else ""
    return (f"{name}{line}" for line in lines)

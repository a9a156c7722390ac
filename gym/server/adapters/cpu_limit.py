"""A limit on the CPU time of code that runs in the event loop: pure Python that never ends is interrupted.

Its timer counts wall time and looks at the thread's CPU time when it rings, so a busy machine changes no reward: the
time for which others had the core is not waiting. The watchdog keeps its own timers. What holds the interpreter's lock
for ever is left to it.
"""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final

LOOK_SECONDS: Final = 0.25


class CpuLimitReached(BaseException):
    """No `Exception`: a library's own `except Exception` must not swallow it. `waited`: it slept, it did not work."""

    def __init__(self, seconds: float, *, waited: bool) -> None:
        super().__init__(f"{seconds:g} s " + ("went by" if waited else "of CPU time were used"))
        self.waited = waited


class CpuLimit:
    """`with CpuLimit(5.0, wall=60.0): ...` raises CpuLimitReached in there. Does nothing outside of the main thread."""

    def __init__(self, seconds: float, *, wall: float) -> None:
        self._seconds = seconds
        self._wall = wall
        self._works = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> None:
        if not self._works:
            return
        self._cpu, self._began = time.thread_time(), time.monotonic() - _kept_from_cores()
        self._before = signal.signal(signal.SIGALRM, self._look)
        signal.setitimer(signal.ITIMER_REAL, min(self._seconds, self._wall, LOOK_SECONDS), LOOK_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._works:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._before)

    def _look(self, _: int, __: FrameType | None) -> None:
        if time.thread_time() - self._cpu >= self._seconds:
            raise CpuLimitReached(self._seconds, waited=False)
        if time.monotonic() - _kept_from_cores() - self._began >= self._wall:
            raise CpuLimitReached(self._wall, waited=True)


def _kept_from_cores() -> float:
    """Seconds for which this thread could have run, and others did."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text("ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):  # no Linux
        return 0.0

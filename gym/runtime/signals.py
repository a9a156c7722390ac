"""How a command is ended: SIGTERM works like Ctrl-C, and a second one does not cut a teardown short."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """While inside, this process cannot be asked to end."""
    with _handling(signal.SIG_IGN, *INTERRUPTS):
        yield


@contextmanager
def end_as_by_ctrl_c() -> Iterator[None]:
    """SIGTERM and a closed terminal end a command the way Ctrl-C does: with its teardown.

    A caller that has its own handler keeps it: the command line's raises too, and has its own exit code.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    unhandled = (one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) is signal.SIG_DFL)
    with _handling(interrupt, *unhandled):
        yield


@contextmanager
def _handling(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    """Only the main thread may say how signals are handled; elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in former.items():
            signal.signal(number, old)

"""Teardown that a second Ctrl-C does not cut short: it ends everything that was started."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def deaf() -> Iterator[None]:
    """While inside, this process cannot be asked to end. Only the main thread may say so; elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = [(number, signal.signal(number, signal.SIG_IGN)) for number in DEAF_TO]
    try:
        yield
    finally:
        for number, handler in former:
            signal.signal(number, handler)

"""Copies of what this process prints, sent to the console of its stack line by line: it has no other way to a log.

One way, by datagrams: a server can neither read what others print nor fill a disk, and waits for nothing. What cannot
be sent is kept, a little of it, and sent later. Imported only where a stack asks for it.
"""

from __future__ import annotations

import atexit
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TextIO

DATAGRAM: Final = 8_000  # bytes
MAX_KEPT: Final = 200  # datagrams
RETRY_SECONDS: Final = 1.0
HELLO: Final = b""
HELLO_SECONDS: Final = 0.5
LAST_SECONDS: Final = 2.0  # that a process which ends waits for its last words


class LineSender:
    """Resolves and connects in a short-lived thread: a name server may be slow, and a server's loop waits for none."""

    def __init__(self, where: str) -> None:
        host, _, port = where.rpartition(":")
        self._where = (host, int(port))
        self._kept: deque[bytes] = deque(maxlen=MAX_KEPT)
        self._socket: socket.socket | None = None
        self._connecting: threading.Timer | None = None
        self._lock = threading.Lock()  # waited for at the end alone: after a fork no one might release it
        self.mask: Callable[[str], str] = str

    def add(self, text: str) -> None:
        raw = self.mask(text).encode("utf-8", "replace")
        self._kept.extend(raw[begin : begin + DATAGRAM] for begin in range(0, len(raw), DATAGRAM))
        self._drain()

    def finish(self) -> None:
        """At the end of the process: its last words matter most. A thread may be sending them just now."""
        if self._lock.acquire(timeout=LAST_SECONDS):
            if self._kept and (self._socket is not None or self._connect(LAST_SECONDS)):
                with suppress(OSError):
                    self._send_kept()
            self._lock.release()
        self._close()

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _drain(self) -> None:
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._send_kept()
        except BlockingIOError:
            return
        except OSError:
            self._close()
        finally:
            self._lock.release()
        if self._kept and self._connecting is None:
            self._connect_later(0.0)

    def _send_kept(self) -> None:
        while self._kept and self._socket is not None:
            self._socket.send(self._kept[0])
            self._kept.popleft()

    def _connect_later(self, seconds: float) -> None:
        self._connecting = threading.Timer(seconds, self._try_to_connect)
        self._connecting.daemon = True
        with suppress(RuntimeError):  # the process ends: no thread begins any more
            self._connecting.start()

    def _try_to_connect(self) -> None:
        if self._connect():
            self._connecting = None
            self._drain()
        else:
            self._connect_later(RETRY_SECONDS)

    def _connect(self, seconds: float = HELLO_SECONDS) -> bool:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            made.connect(self._where)
            made.settimeout(seconds)
            made.send(HELLO)
            made.recv(1)  # it listens: what is sent to who does not yet is lost without a word
            made.setblocking(False)
        except OSError:
            made.close()
            return False
        self._socket = made
        return True


class CopiedStream:
    """A stream of text whose whole lines are copied."""

    def __init__(self, stream: TextIO, sender: LineSender) -> None:
        self._stream = stream
        self._sender = sender
        self._begun = ""

    def write(self, text: str) -> int:
        written = self._stream.write(text)
        lines, end, rest = (self._begun + text).rpartition("\n")
        self._begun = rest[-DATAGRAM:]
        if end:
            self._sender.add(lines + end)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def copy_output(where: str) -> LineSender:
    """Of this process from now on."""
    sender = LineSender(where)
    atexit.register(sender.finish)
    sys.stdout, sys.stderr = CopiedStream(sys.stdout, sender), CopiedStream(sys.stderr, sender)
    return sender

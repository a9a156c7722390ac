"""The server's end of `worker_process`: starts the forkserver, lets it fork workers, learns how each of them ended."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, cast

PROCESS = Path(__file__).with_name("worker_process.py")
HEADER = 4
END_SECONDS = 5.0
MAX_STACK = 64 * 1024
_FRAME = re.compile(rb'  File "([\x20-\x7e]{1,4096})", line ([0-9]{1,9}) in ([\x20-\x7e]{1,500})')
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_OWN_PREFIXES = ("NEMO_GYM_", "GYM_")


class ForkserverGone(Exception):
    """The forkserver ended, or its module could not be imported: the text says which."""


class WorkerChannel(asyncio.Protocol):
    """One worker's socket: a question, then its answer."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[bytes] | None = None
        self._buffer = bytearray()
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without deriving from it

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._answer(b"")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = HEADER + int.from_bytes(self._buffer[:HEADER], "big")
        if len(self._buffer) >= HEADER and len(self._buffer) >= end:
            frame = bytes(self._buffer[HEADER:end])
            self._buffer.clear()
            self._answer(frame)

    def ask(self, question: bytes) -> asyncio.Future[bytes]:
        """The answer; nothing when the worker ended over it."""
        assert self._transport is not None
        self._waiter = asyncio.get_running_loop().create_future()
        if self.lost:
            self._answer(b"")
        else:
            self._transport.write(len(question).to_bytes(HEADER, "big") + question)
        return self._waiter

    def abort(self) -> None:
        self.lost = True
        if self._transport is not None:
            self._transport.abort()

    def _answer(self, frame: bytes) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(frame)


class StackPipe:
    """What a worker writes when its time is up; a pipe, so that it can fill no memory."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def open(cls) -> tuple[Self, int]:
        """And the worker's end of it."""
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        os.set_blocking(theirs, False)
        return cls(ours), theirs

    def read(self) -> bytes:
        with suppress(OSError):
            return os.read(self._fd, MAX_STACK)
        return b""

    def __del__(self) -> None:
        os.close(self._fd)


@dataclass(eq=False, slots=True)
class Worker:
    pid: int
    channel: WorkerChannel
    forkserver: Forkserver
    stack: StackPipe

    def interrupt(self) -> None:
        """Have it write where it is, and end."""
        if not self.forkserver.gone:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, signal.SIGPROF)

    def last_place(self) -> str | None:
        """`graders.py:12 in judge` of one that ran out of time, or ""; None: it was not interrupted.

        The code that it ran may forge the answer.
        """
        stack = self.stack.read()
        return _place_in(stack, self.forkserver.folder) if stack else None

    def kill(self) -> None:
        """It was not waited for yet, so the number is still its own."""
        if not self.forkserver.gone:
            with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a zombie's group
                os.killpg(self.pid, signal.SIGKILL)
        self.channel.abort()


@dataclass(eq=False, slots=True)
class Forkserver:
    """One process and the children it forks. `start` it; `close` ends all of them."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    folder: str = ""
    gone: str = ""  # why, when it has ended
    _ready: asyncio.Future[int] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    _forks: deque[asyncio.Future[int]] = field(default_factory=deque)
    _exits: dict[int, asyncio.Future[int]] = field(default_factory=dict)
    _text: bytes = b""

    @classmethod
    async def start(cls, module: str, folder: str, memory: int) -> Self:
        """Ready when the module is imported."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        argv = (sys.executable, "-P", str(PROCESS), module, folder, str(memory), str(theirs.fileno()))
        with theirs:
            process = subprocess.Popen(  # noqa: S603 (ourselves)
                argv, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), env=_environment(os.environ)
            )
        forkserver = cls(process, ours, folder)
        asyncio.get_running_loop().add_reader(ours, forkserver._read)
        try:
            await forkserver._ready
        except BaseException:
            await forkserver.close()
            raise
        return forkserver

    async def fork(self) -> Worker:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        forked: asyncio.Future[int] = loop.create_future()
        stack, end = StackPipe.open()
        try:
            with theirs:
                self._send(b"fork\n", [theirs.fileno(), end])
                self._forks.append(forked)
        finally:
            os.close(end)
        try:
            pid = await asyncio.shield(forked)
            _, channel = await loop.create_unix_connection(WorkerChannel, sock=ours)
        except BaseException:
            ours.close()  # a worker that cannot be asked ends
            forked.add_done_callback(self._forget)
            raise
        return Worker(pid, channel, self, stack)

    def bury(self, worker: Worker) -> asyncio.Future[int]:
        """How it ended, as `os.waitpid` says it. Kills it where it has not."""
        worker.kill()
        ended = self._exits[worker.pid] = asyncio.get_running_loop().create_future()
        if not self.gone:
            with suppress(ForkserverGone):
                self._send(b"%d\n" % worker.pid)
        if self.gone:
            ended.set_result(signal.SIGKILL)
        return ended

    async def close(self) -> None:
        """Its workers end with it."""
        self._end("it was closed")
        try:
            await asyncio.to_thread(self.process.wait, END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _send(self, order: bytes, descriptors: list[int] | None = None) -> None:
        try:
            socket.send_fds(self.control, [order], descriptors or [])
        except OSError as error:
            self._end(f"the worker process is gone: {error}")
            raise ForkserverGone(self.gone) from error

    def _read(self) -> None:
        try:
            data = self.control.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end("the worker process ended")
            return
        *lines, self._text = (self._text + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))

    def _take(self, message: dict[str, Any]) -> None:
        if "forked" in message:
            _settle(self._forks.popleft(), message["forked"])
        elif "pid" in message:
            if ended := self._exits.pop(message["pid"], None):
                _settle(ended, message["status"])
        elif "error" in message:
            kind, message, where = message["error"]
            self._end(f"{kind}: {message}{where and f' ({where})'}")
        else:
            _settle(self._ready, 0)

    def _end(self, why: str) -> None:
        if self.gone:
            return
        self.gone = why
        asyncio.get_running_loop().remove_reader(self.control)
        self.control.close()
        for waiting in (self._ready, *self._forks):
            if not waiting.done():
                waiting.set_exception(ForkserverGone(why))
                waiting.exception()  # its caller may have gone
        for ended in self._exits.values():
            _settle(ended, signal.SIGKILL)

    def _forget(self, forked: asyncio.Future[int]) -> None:
        if not forked.cancelled() and forked.exception() is None and not self.gone:
            with suppress(ForkserverGone):
                self._send(b"%d\n" % forked.result())


def _place_in(stack: bytes, folder: str) -> str:
    """The innermost line of a file in `folder`, else of any but this package's."""
    frames = [(found[1].decode(), found[2].decode(), found[3].decode()) for found in _FRAME.finditer(stack)]
    own = [one for one in frames if one[0].startswith(folder + os.sep)]
    others = [one for one in frames if not one[0].endswith(PROCESS.name)]
    for path, line, function in (own or others)[:1]:
        return f"{path.rpartition(os.sep)[2]}:{line} in {function}"[:200]
    return ""


def _settle(future: asyncio.Future[int], value: int) -> None:
    if not future.done():
        future.set_result(value)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Secrets and addresses stay with the server: workers run what came from a row or from a model."""
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(_OWN_PREFIXES) and not any(word in name.upper() for word in _SECRET_WORDS)
    }

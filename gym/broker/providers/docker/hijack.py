"""Connections to the engine that turn into the pipes of a container."""

from __future__ import annotations

import asyncio
import struct
from typing import Final

from gym.http.dial import Dial, Endpoint
from gym.http.keepalive import keep_transport_alive

FRAME: Final = struct.Struct(">BxxxL")  # the engine's: stream, length
MAX_HEAD: Final = 64 * 1024
KEPT_OPENING: Final = 512
KEPT_WORDS: Final = 4096  # of a container's stderr, for the error that needs it


class Attached(asyncio.StreamReaderProtocol):
    """A connection that became pipes: `reader` gives what the container writes to stdout, `writer` is its stdin."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.reader = asyncio.StreamReader(limit=1 << 20, loop=loop)
        super().__init__(self.reader, loop=loop)
        self._loop_of = loop
        self._buffer = bytearray()
        self._status: asyncio.Future[int] = loop.create_future()
        self._piped = False
        self._stream, self._left = 0, 0
        self._words = bytearray()
        self._opening = bytearray()
        self._pipe: asyncio.Transport | None = None
        self._writer: asyncio.StreamWriter | None = None

    @classmethod
    async def open(cls, dial: Dial, address: Endpoint, request: bytes) -> Attached:
        loop = asyncio.get_running_loop()
        transport, self = await dial.open(lambda: cls(loop), address)
        keep_transport_alive(transport)
        transport.write(request)
        return self

    @property
    def writer(self) -> asyncio.StreamWriter:
        """Always the same object: a writer closes its pipe when it is garbage-collected."""
        assert self._pipe is not None
        if self._writer is None:
            self._writer = asyncio.StreamWriter(self._pipe, self, self.reader, self._loop_of)
        return self._writer

    @property
    def words(self) -> str:
        """The last of what the container wrote to stderr."""
        return self._words.decode("utf-8", "replace").strip()

    @property
    def opening(self) -> str:
        """The first of what came on stdout: an engine that cannot start an exec says so there."""
        return self._opening.decode("utf-8", "replace").strip()

    async def answered(self) -> tuple[int, bytes]:
        """The status of the reply; its body too, where it is a refusal."""
        status = await self._status
        if status in (101, 200):
            return status, b""
        return status, await self.reader.read()

    def close(self) -> None:
        if self._pipe is not None:
            self._pipe.abort()

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert hasattr(transport, "pause_reading")
        self._pipe = transport  # type: ignore[assignment]  # uvloop's is one without deriving from it

    def data_received(self, data: bytes) -> None:
        if self._piped:
            self._demultiplex(data)
            return
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD:
                self.close()
            return
        status, rest = int(self._buffer[9:12]), bytes(self._buffer[end + 4 :])
        self._buffer.clear()
        if status in (101, 200):
            self._piped = True
            self._demultiplex(rest)
        else:
            self.reader.feed_data(rest)
            self.reader.feed_eof()  # a refusal is short and comes with its head
        if not self._status.done():
            self._status.set_result(status)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._status.done():
            self._status.set_exception(EOFError("it closed the connection before it answered"))
            self._status.exception()
        super().connection_lost(exc)

    def _demultiplex(self, data: bytes) -> None:
        """Frames of the engine may come in any pieces."""
        view = memoryview(data)
        while view:
            if self._left:
                part, view = view[: self._left], view[self._left :]
                self._left -= len(part)
                self._take(part)
                continue
            missing = FRAME.size - len(self._buffer)
            self._buffer += view[:missing]
            view = view[missing:]
            if len(self._buffer) == FRAME.size:
                self._stream, self._left = FRAME.unpack(self._buffer)
                self._buffer.clear()

    def _take(self, part: memoryview) -> None:
        if self._stream == 1:
            self._opening += part[: max(0, KEPT_OPENING - len(self._opening))]
            self.reader.feed_data(bytes(part))
        else:
            self._words += part
            del self._words[:-KEPT_WORDS]

"""A connection to an engine that turns into the pipes of a container, by HTTP's switch to another protocol."""

from __future__ import annotations

import asyncio
import re
from typing import ClassVar, Final, Self

from gym.http.dial import Dial, Endpoint
from gym.http.keepalive import keep_transport_alive

MAX_HEAD: Final = 64 << 10
KEPT_WORDS: Final = 4096  # of a container's stderr, for the error that needs it
LENGTH: Final = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)


class UpgradedPipe(asyncio.StreamReaderProtocol):
    """`reader` gives what the container writes to stdout; a subclass has the writer to its stdin."""

    SWITCHED: ClassVar[tuple[int, ...]] = (101,)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.reader = asyncio.StreamReader(limit=1 << 20, loop=loop)
        super().__init__(self.reader, loop=loop)
        self._loop_of = loop
        self._head = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] = loop.create_future()
        self._switched = False
        self._words = bytearray()
        self._pipe: asyncio.Transport | None = None
        self._writer: asyncio.StreamWriter | None = None

    @classmethod
    async def dial(cls, dial: Dial, address: Endpoint, request: bytes) -> Self:
        loop = asyncio.get_running_loop()
        transport, self = await dial.open(lambda: cls(loop), address)
        keep_transport_alive(transport)
        transport.write(request)
        return self

    @property
    def stream_writer(self) -> asyncio.StreamWriter:
        """Always the same object: a writer closes its pipe when it is garbage-collected."""
        assert self._pipe is not None
        if self._writer is None:
            self._writer = asyncio.StreamWriter(self._pipe, self, self.reader, self._loop_of)
        return self._writer

    @property
    def words(self) -> str:
        """The last of what the container wrote to stderr."""
        return self._words.decode("utf-8", "replace").strip()

    async def answered(self) -> tuple[int, bytes]:
        """The status of the reply; its body too, where it is a refusal."""
        return await self._answer

    def close(self) -> None:
        if self._pipe is not None:
            self._pipe.abort()

    def receive(self, data: bytes) -> None:
        """What comes after the switch."""
        raise NotImplementedError

    def keep_words(self, data: bytes | memoryview) -> None:
        self._words += data
        del self._words[:-KEPT_WORDS]

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert hasattr(transport, "pause_reading")
        self._pipe = transport  # type: ignore[assignment]  # uvloop's is one without deriving from it

    def data_received(self, data: bytes) -> None:
        if not self._switched:
            data = self._read_head(data)
        if self._switched and data:
            self.receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(EOFError("it closed the connection before it answered"))
            self._answer.exception()
        super().connection_lost(exc)

    def _read_head(self, data: bytes) -> bytes:
        """What follows the head, once the head is complete. A refusal ends with its body."""
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            if len(self._head) > MAX_HEAD:
                self.close()
            return b""
        status, rest = int(self._head[9:12]), bytes(self._head[end + 4 :])
        if status in self.SWITCHED:
            self._switched = True
            self._head.clear()
            self._settle(status, b"")
            return rest
        size = LENGTH.search(self._head[: end + 2])
        if size is None or len(rest) >= min(int(size[1]), MAX_HEAD):
            self._settle(status, rest)
        return b""

    def _settle(self, status: int, body: bytes) -> None:
        if not self._answer.done():
            self._answer.set_result((status, body))

"""The pipes of a container over the API's WebSocket (v5.channel.k8s.io, v4 of older clusters).

The first byte of each message is its channel: 0 stdin, 1 stdout, 2 stderr, 3 how it ended.
"""

from __future__ import annotations

import asyncio
import re
import struct
from typing import Any, Final

import orjson

from gym.http.dial import Dial, Endpoint
from gym.http.keepalive import keep_transport_alive
from gym.http.websocket import BINARY, CLOSE, PING, PONG, BadFrame, Decoder, Message, encode, handshake

PROTOCOLS: Final = b"v5.channel.k8s.io, v4.channel.k8s.io"
STDIN, STDOUT, STDERR, STATUS = 0, 1, 2, 3
PIECE: Final = 32 << 10  # of one message
MAX_HEAD: Final = 64 << 10
KEPT_WORDS: Final = 4096  # of stderr, for the error that needs it
NORMAL: Final = struct.pack("!H", 1000)
LENGTH: Final = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)


class StdinWriter:
    """Fits `channel.Writer`. Closing it lets go of the line; the process at its other end goes on."""

    def __init__(self, pipe: asyncio.StreamWriter) -> None:
        self._pipe = pipe

    def write(self, data: bytes) -> None:
        for at in range(0, len(data), PIECE):
            self._pipe.write(encode(BINARY, bytes([STDIN]) + data[at : at + PIECE], masked=True))

    async def drain(self) -> None:
        await self._pipe.drain()

    def close(self) -> None:
        if not self._pipe.is_closing():
            self._pipe.write(encode(CLOSE, NORMAL, masked=True))
            self._pipe.close()


class AttachStream(asyncio.StreamReaderProtocol):
    """`reader` gives what the process writes to stdout, `writer` is its stdin."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.reader = asyncio.StreamReader(limit=1 << 20, loop=loop)
        super().__init__(self.reader, loop=loop)
        self._own_loop = loop
        self._head = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] = loop.create_future()
        self._decoder: Decoder | None = None
        self._words = bytearray()
        self._pipe: asyncio.Transport | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.exit_code: int | None = None
        self.failure = ""  # the API's own words for an end that has no exit code

    @classmethod
    async def open(cls, dial: Dial, address: Endpoint, authorization: bytes) -> AttachStream:
        loop = asyncio.get_running_loop()
        request, _ = handshake(address.target, address.netloc, authorization, PROTOCOLS)
        transport, self = await dial.open(lambda: cls(loop), address)
        keep_transport_alive(transport)
        transport.write(request)
        return self

    @property
    def writer(self) -> StdinWriter:
        assert self._pipe is not None
        if self._writer is None:
            self._writer = asyncio.StreamWriter(self._pipe, self, self.reader, self._own_loop)
        return StdinWriter(self._writer)

    @property
    def words(self) -> str:
        """The last of what came on stderr."""
        return self._words.decode("utf-8", "replace").strip() or self.failure

    async def answered(self) -> tuple[int, bytes]:
        """The status of the reply; its body too, where it is a refusal."""
        return await self._answer

    def close(self) -> None:
        if self._pipe is not None:
            self._pipe.abort()

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert hasattr(transport, "pause_reading")
        self._pipe = transport  # type: ignore[assignment]  # uvloop's is one without deriving from it

    def data_received(self, data: bytes) -> None:
        if self._decoder is None:
            data = self._read_head(data)
        if self._decoder is None:
            return
        try:
            for message in self._decoder.feed(data):
                self._take(message)
        except BadFrame as error:
            self.failure = f"the API server broke the protocol: {error}"
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            self._answer.set_exception(EOFError("it closed the connection before it answered"))
            self._answer.exception()
        super().connection_lost(exc)

    def _read_head(self, data: bytes) -> bytes:
        """What follows the head, once it is there whole. A refusal is over when its body is."""
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0:
            if len(self._head) > MAX_HEAD:
                self.close()
            return b""
        status, rest = int(self._head[9:12]), bytes(self._head[end + 4 :])
        if status == 101:
            self._decoder = Decoder(masked=False)
            if not self._answer.done():
                self._answer.set_result((101, b""))
            return rest
        size = LENGTH.search(self._head[: end + 2])
        if (size is None or len(rest) >= int(size[1])) and not self._answer.done():
            self._answer.set_result((status, rest))
        return b""

    def _take(self, message: Message) -> None:
        assert self._pipe is not None
        if message.kind == PING:
            self._pipe.write(encode(PONG, message.data, masked=True))
        elif message.kind == CLOSE:
            self.reader.feed_eof()
            self._pipe.close()
        elif message.data:
            self._take_channel(message.data[0], message.data[1:])

    def _take_channel(self, channel: int, data: bytes) -> None:
        if channel == STDOUT and data:
            self.reader.feed_data(data)
        elif channel == STDERR:
            self._words += data
            del self._words[:-KEPT_WORDS]
        elif channel == STATUS:
            self.exit_code, self.failure = read_status(data)


def read_status(data: bytes) -> tuple[int | None, str]:
    """The exit code that the last message names, and the words beside it where it failed."""
    try:
        found: dict[str, Any] = orjson.loads(data)
        if found.get("status") == "Success":
            return 0, ""
        causes = (found.get("details") or {}).get("causes") or ()
        code = next((str(one["message"]) for one in causes if one.get("reason") == "ExitCode"), "")
        return int(code) if code.isdigit() else None, str(found.get("message") or "")
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
        return None, data[:500].decode("utf-8", "replace")

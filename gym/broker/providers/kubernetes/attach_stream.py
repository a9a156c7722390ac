"""The pipes of a container over the API's WebSocket (v5.channel.k8s.io, v4 of older clusters).

The first byte of each message is its channel: 0 stdin, 1 stdout, 2 stderr, 3 how it ended.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any, Final

import orjson

from gym.broker.providers.upgraded_pipe import UpgradedPipe
from gym.http.dial import Dial, Endpoint
from gym.http.websocket import BINARY, CLOSE, PING, PONG, BadFrame, Decoder, Message, encode, handshake

PROTOCOLS: Final = b"v5.channel.k8s.io, v4.channel.k8s.io"
STDIN, STDOUT, STDERR, STATUS = 0, 1, 2, 3
PIECE: Final = 32 << 10  # of one message
NORMAL: Final = struct.pack("!H", 1000)


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


class AttachStream(UpgradedPipe):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._decoder = Decoder(masked=False)
        self.exit_code: int | None = None
        self.failure = ""  # the API's own words for an end that has no exit code

    @classmethod
    async def open(cls, dial: Dial, address: Endpoint, authorization: bytes) -> AttachStream:
        request, _ = handshake(address.target, address.netloc, authorization, PROTOCOLS)
        return await cls.dial(dial, address, request)

    @property
    def writer(self) -> StdinWriter:
        return StdinWriter(self.stream_writer)

    @property
    def words(self) -> str:
        return super().words or self.failure

    def receive(self, data: bytes) -> None:
        try:
            for message in self._decoder.feed(data):
                self._take(message)
        except BadFrame as error:
            self.failure = f"the API server broke the protocol: {error}"
            self.close()

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
            self.keep_words(data)
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

"""The open connection to a command's stdin and stdout in a sandbox: bytes both ways as they come."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Self
from urllib.parse import quote

import orjson

from gym.http.dial import parse_url
from gym.http.peer_health import PeerHealth
from gym.http.pool import CONNECT_SECONDS
from gym.http.streams import OpenConnection, read_head
from gym.http.websocket import BINARY, CLOSE, PING, PONG, TEXT, BadFrame, Decoder, Message, encode, handshake
from gym.sandbox.broker_client import Sandboxes
from gym.sandbox.sandbox_errors import failure
from gym.wire.failures import RolloutError

PIECE = 256 << 10


class PipeEnded(Exception):
    """The command ended; says how."""


class Pipe:
    """Closing it ends the command."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: OpenConnection, health: PeerHealth
    ) -> None:
        self._connection = connection
        self._health = health
        self._reader = reader
        self._writer = writer
        self._decoder = Decoder(masked=False)
        self._waiting: deque[bytes] = deque()
        self._ended: Exception | None = None

    @classmethod
    async def open(cls, sandboxes: Sandboxes, sandbox: str, command: str) -> Self:
        """`command` is a line for /bin/sh; its stdout and stderr come as one."""
        path = f"/sandboxes/{sandbox}/attach?tty=0&command={quote(command, safe='')}"
        address = parse_url(sandboxes.url + path)
        request, accept = handshake(address.target, address.netloc, sandboxes.authorization)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(address.host, address.port, limit=1 << 20)
            writer.write(request)
            answer = await read_head(reader)
            if answer.status != 101:
                raise failure(answer.status, await answer.whole())
            if answer.headers.get(b"sec-websocket-accept") != accept:
                raise ConnectionError("the broker's handshake does not match ours")
        except (OSError, TimeoutError) as error:
            raise RolloutError("sandbox", f"sandbox broker: {error}", server="sandbox") from None
        connection = OpenConnection(address.peer, reader, writer)
        sandboxes.health.watch(connection)
        return cls(reader, writer, connection, sandboxes.health)

    async def write(self, data: bytes) -> None:
        try:
            for at in range(0, len(data), PIECE):
                self._writer.write(encode(BINARY, data[at : at + PIECE], masked=True))
                await self._writer.drain()
        except OSError as error:
            raise RolloutError("sandbox", f"the connection to a sandbox broke: {error}", server="sandbox") from None

    async def read(self) -> bytes:
        """What comes next; `PipeEnded` when the command has ended."""
        while not self._waiting:
            if self._ended is not None:
                raise self._ended
            try:
                data = await self._reader.read(PIECE)
            except OSError as error:
                raise RolloutError("sandbox", f"the connection to a sandbox broke: {error}", server="sandbox") from None
            if not data:
                raise RolloutError("sandbox", "the connection to a sandbox broke", server="sandbox")
            self._take(data)
        return self._waiting.popleft()

    def close(self) -> None:
        self._health.leave(self._connection, vanished=False)
        self._writer.transport.abort()

    def _take(self, data: bytes) -> None:
        try:
            for message in self._decoder.feed(data):
                if message.kind == BINARY:
                    self._waiting.append(message.data)
                elif message.kind == PING:
                    self._writer.write(encode(PONG, message.data, masked=True))
                elif message.kind in (TEXT, CLOSE) and self._ended is None:
                    self._ended = how_ended(message)
        except BadFrame as error:
            raise RolloutError("sandbox", f"the connection to a sandbox broke: {error}", server="sandbox") from None


def how_ended(message: Message) -> Exception:
    if message.kind == CLOSE:
        return RolloutError("sandbox", "the broker closed the connection to a sandbox", server="sandbox")
    fields = orjson.loads(message.data)
    if "result" not in fields:
        return failure(500, message.data)
    code, signal = fields["result"]["exit_code"], fields["result"]["signal"]
    return PipeEnded(f"exit code {code}" if signal is None else f"signal {signal}")

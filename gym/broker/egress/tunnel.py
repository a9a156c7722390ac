"""Carries one connection both ways, between a sandbox and the address that was checked, within time and size."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from gym.broker.egress.destinations import EgressDenied
from gym.broker.egress.request_head import Body
from gym.http.keepalive import keep_transport_alive
from gym.sandbox.relay import ConnectionLost

HALF_SECONDS: Final = 15.0  # for the other side, after one side has closed
READ: Final = 65536
CHUNK_LINE: Final = 1024
Count = Callable[[int, int], None]  # bytes sent, bytes received


class ByteStream(Protocol):
    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def flush(self) -> None: ...

    async def end(self) -> None: ...

    def abort(self) -> None: ...


class OutsideConnection:
    """A connection to the world, as a `ByteStream`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        return await self._reader.read(READ)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def flush(self) -> None:
        await self._writer.drain()

    async def end(self) -> None:
        if self._writer.can_write_eof():
            self._writer.write_eof()

    def abort(self) -> None:
        """With a reset, so that the other end notices."""
        sock = self._writer.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


async def dial(addresses: Sequence[str], port: int, seconds: float, name: str) -> tuple[OutsideConnection, str]:
    """Connects to one of the checked addresses, never to the name: it may resolve to another address by now."""
    why = "it has no address"
    for address in addresses[:4]:
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await asyncio.open_connection(address, port, limit=READ)
            keep_transport_alive(writer.transport)
            return OutsideConnection(reader, writer), address
        except (OSError, TimeoutError) as error:
            why = str(error) or "no answer"
    raise EgressDenied(f"no connection to {name}:{port}: {why}", gateway=True)


@dataclass
class Tunnel:
    """`first` was read from the sandbox already."""

    inside: ByteStream
    outside: ByteStream
    count: Count
    idle_seconds: float
    _limit: asyncio.Timeout = field(init=False, repr=False)

    async def carry(self, first: bytes, body: Body | None) -> None:
        """`body`: exactly this much is sent (HTTP); None: everything, until both sides have closed (TLS)."""
        up = self._pass_all(first) if body is None else self._pass_body(first, body)
        try:
            async with asyncio.timeout(self.idle_seconds) as limit:
                self._limit = limit
                await self._both(up, whole=body is None)
        except TimeoutError:
            raise ConnectionLost("nothing came for too long") from None

    async def _both(self, up: Coroutine[Any, Any, None], *, whole: bool) -> None:
        sending = asyncio.create_task(up)
        receiving = asyncio.create_task(self._pass_back())
        try:
            await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
                if whole:
                    self._extend_timeout(HALF_SECONDS)
                await receiving
            else:
                receiving.result()
                if whole:
                    self._extend_timeout(HALF_SECONDS)
                    await sending
            await self.inside.flush()
        finally:
            sending.cancel()
            receiving.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)

    async def _pass_all(self, first: bytes) -> None:
        data = first
        while data:
            await self._out(data)
            data = await self.inside.read()
        await self.outside.end()

    async def _pass_body(self, first: bytes, body: Body) -> None:
        source = BufferedReader(self.inside, first)
        if body == "chunked":
            await self._pass_chunks(source)
        else:
            await self._pass_exactly(source, int(body))

    async def _pass_chunks(self, source: BufferedReader) -> None:
        while True:
            line = await source.line()
            words = line.partition(b";")[0].strip()
            if not words or len(words) > 8 or not all(byte in b"0123456789abcdefABCDEF" for byte in words):
                raise EgressDenied("a chunk whose length can be read in two ways")
            size = int(words, 16)
            if size == 0:
                break
            await self._out(b"%x\r\n" % size)
            await self._pass_exactly(source, size)
            if await source.line():
                raise EgressDenied("a chunk that is longer than it said")
            await self._out(b"\r\n")
        await self._out(b"0\r\n\r\n")  # without trailers

    async def _pass_exactly(self, source: BufferedReader, size: int) -> None:
        while size:
            data = await source.some(size)
            size -= len(data)
            await self._out(data)

    async def _pass_back(self) -> None:
        while data := await self.outside.read():
            self._extend_timeout(self.idle_seconds)
            self.count(0, len(data))
            await self.inside.write(data)
        await self.inside.end()

    def _extend_timeout(self, seconds: float) -> None:
        self._limit.reschedule(asyncio.get_running_loop().time() + seconds)

    async def _out(self, data: bytes) -> None:
        self._extend_timeout(self.idle_seconds)
        self.count(len(data), 0)
        await self.outside.write(data)


class BufferedReader:
    """Buffers what a sandbox sends, and returns it in pieces of the wanted size."""

    def __init__(self, stream: ByteStream, first: bytes = b"") -> None:
        self._stream = stream
        self._buffer = bytearray(first)

    async def some(self, max_bytes: int) -> bytes:
        if not self._buffer:
            self._buffer += await self._more()
        data = bytes(self._buffer[:max_bytes])
        del self._buffer[:max_bytes]
        return data

    async def line(self) -> bytes:
        return (await self.until(b"\r\n", CHUNK_LINE))[:-2]

    async def until(self, mark: bytes, max_bytes: int) -> bytes:
        while (at := self._buffer.find(mark)) < 0:
            if len(self._buffer) > max_bytes:
                raise EgressDenied(f"more than {max_bytes} bytes before the head of the request ends")
            self._buffer += await self._more()
        if at > max_bytes:
            raise EgressDenied(f"more than {max_bytes} bytes before the head of the request ends")
        data = bytes(self._buffer[: at + len(mark)])
        del self._buffer[: at + len(mark)]
        return data

    def rest(self) -> bytes:
        data = bytes(self._buffer)
        self._buffer.clear()
        return data

    async def peek_more(self) -> bytes:
        """Reads more, and returns everything in the buffer without consuming it."""
        self._buffer += await self._more()
        return bytes(self._buffer)

    def peek(self) -> bytes:
        return bytes(self._buffer)

    async def _more(self) -> bytes:
        data = await self._stream.read()
        if not data:
            raise ConnectionLost("the sandbox closed the connection")
        return data

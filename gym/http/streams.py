"""HTTP bodies that do not fit in memory, sent and received in pieces. One connection for one exchange."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from gym.http.dial import Dial, Endpoint, parse_url
from gym.http.keepalive import heard_within, keep_transport_alive
from gym.http.peer_health import VANISHED_WORDS, Peer, PeerHealth, PeerVanished, is_vanished
from gym.http.pool import CONNECT_SECONDS, NotSent

T = TypeVar("T")
PIECE = 1 << 18
Pieces = AsyncIterator[bytes]


class TooLarge(ConnectionError):
    """The reply has more bytes than were to be taken."""


@dataclass(slots=True)
class Incoming:
    """A reply whose head was read; the body is read on demand."""

    status: int
    headers: dict[bytes, bytes]
    reader: asyncio.StreamReader
    idle: float | None = None  # seconds without a byte after which nothing more is expected

    async def pieces(self, max_bytes: int | None = None) -> Pieces:
        """At most `max_bytes`, as a sandbox may send without end."""
        async for piece in self._pieces():
            if max_bytes is not None and (max_bytes := max_bytes - len(piece)) < 0:
                raise TooLarge("the reply is larger than what was to be taken")
            yield piece

    async def _pieces(self) -> Pieces:
        if self.headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            while size := await self._chunk_size():
                async for piece in self._exactly(size):
                    yield piece
                await within(self.idle, self.reader.readline())
            return
        async for piece in self._exactly(int(self.headers.get(b"content-length", b"0"))):
            yield piece

    async def lines(self) -> Pieces:
        held = b""
        async for piece in self.pieces():
            *whole, held = (held + piece).split(b"\n")
            for line in whole:
                yield line
        if held:
            yield held

    async def whole(self, max_bytes: int = 64 << 20) -> bytes:
        found = bytearray()
        async for piece in self.pieces():
            found += piece
            if len(found) > max_bytes:
                raise TooLarge(f"the reply is larger than {max_bytes} bytes")
        return bytes(found)

    async def _chunk_size(self) -> int:
        line = await within(self.idle, self.reader.readline())
        try:
            return int(line, 16)
        except ValueError:
            raise ConnectionError("the reply breaks off in the middle") from None

    async def _exactly(self, size: int) -> Pieces:
        while size:
            piece = await within(self.idle, self.reader.read(min(size, PIECE)))
            if not piece:
                raise ConnectionError("the reply breaks off in the middle")
            size -= len(piece)
            yield piece


class OpenConnection:
    """A connection that stays open: fits `gym.http.peer_health.AwaitedConnection`."""

    def __init__(self, peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.peer = peer
        self.waits = True
        self.asked = asyncio.get_running_loop().time()
        self._reader = reader
        self._transport = writer.transport
        keep_transport_alive(writer.transport)

    def heard_within(self, seconds: float) -> bool:
        return heard_within(self._transport.get_extra_info("socket"), seconds)

    def give_up(self, error: Exception) -> None:
        self._reader.set_exception(error)
        self._transport.abort()


@asynccontextmanager
async def exchange(
    method: str,
    url: str,
    headers: Iterable[tuple[bytes, bytes]],
    body: Pieces | bytes = b"",
    *,
    idle: float | None = None,
    health: PeerHealth | None = None,
) -> AsyncIterator[Incoming]:
    """`NotSent` promises that the peer saw nothing. A refusal that comes while we still send is read at once.

    With `idle`, a peer that takes nothing, or says nothing, for so many seconds is one that went away.
    With `health`, one that is silent is asked beside it whether it is there.
    """
    address = parse_url(url)
    size = (b"content-length", b"%d" % len(body)) if isinstance(body, bytes) else (b"transfer-encoding", b"chunked")
    head = request_head(method, address.target, ((b"host", address.netloc), *headers, size))
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(address.host, address.port, limit=1 << 20)
    except (OSError, TimeoutError) as error:
        raise NotSent(f"no connection to {address.host}:{address.port}: {error}") from None
    line = OpenConnection(address.peer, reader, writer)
    writer.write(head)
    sending = asyncio.get_running_loop().create_task(send_body(writer, body, idle))
    try:
        if health is not None:
            health.watch(line)
        reading = asyncio.get_running_loop().create_task(read_head(reader))
        try:
            await asyncio.wait({sending, reading}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and (failed := sending.exception()) is not None and not isinstance(failed, OSError):
                raise failed  # the source of the body broke, not the line
            incoming = await within(idle, reading)
            incoming.idle = idle
            yield incoming
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        if health is not None:
            health.leave(line, vanished=is_vanished(reader.exception()))
        writer.transport.abort()


async def send_body(writer: asyncio.StreamWriter, body: Pieces | bytes, idle: float | None = None) -> None:
    if isinstance(body, bytes):
        writer.write(body)
        await within(idle, writer.drain())
        return
    async for piece in body:
        if piece:
            writer.write(b"%x\r\n" % len(piece))
            writer.write(piece)
            writer.write(b"\r\n")
            await within(idle, writer.drain())
            await asyncio.sleep(0)  # a peer that takes everything at once must not keep us from hearing it
    writer.write(b"0\r\n\r\n")
    await within(idle, writer.drain())


async def within(idle: float | None, work: Awaitable[T]) -> T:
    """Not by `wait_for`: who is cancelled in the moment in which the work is done would not hear of it."""
    try:
        async with asyncio.timeout(idle):
            return await work
    except TimeoutError as error:
        if is_vanished(error):  # a kernel's "connection timed out" is of the same class
            raise PeerVanished(VANISHED_WORDS.format(error)) from None
        raise ConnectionError(f"the peer was silent for {idle:g} s") from None


async def open_stream(
    dial: Dial, address: Endpoint, limit: int = 1 << 16
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection by `dial` in `CONNECT_SECONDS`; else an `OSError`, as a `TimeoutError` is."""
    reader = asyncio.StreamReader(limit=limit)
    async with asyncio.timeout(CONNECT_SECONDS):
        transport, protocol = await dial.open(lambda: asyncio.StreamReaderProtocol(reader), address)
    keep_transport_alive(transport)
    return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())


def request_head(method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """`ValueError` for a line break in any part, and for a blank in the target: the peer would read another request."""
    lines = [b"%b %b HTTP/1.1" % (method.encode(), target), *(b"%b: %b" % header for header in headers)]
    if len(lines[0].split()) != 3 or any(mark in line for line in lines for mark in b"\r\n"):
        raise ValueError(f"line break in the head of {method} {target!r}")
    return b"\r\n".join((*lines, b"", b""))


async def read_head(reader: asyncio.StreamReader) -> Incoming:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise ConnectionError("the peer closed the connection before it answered") from error
    first, *lines = head[:-4].split(b"\r\n")
    fields = first.split(b" ", 2)
    if len(fields) < 2 or not fields[0].startswith(b"HTTP/1.") or not fields[1].isdigit():
        raise ConnectionError("not an HTTP reply")
    found = dict((name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines))
    return Incoming(int(fields[1]), found, reader)

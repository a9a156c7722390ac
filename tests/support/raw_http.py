"""A server that answers with exactly the bytes a test wants, and remembers what it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Closed(Exception):
    """The client went away between two requests."""


@dataclass
class Peer:
    """One connection, as the script of a test sees it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> bytes:
        """The next request, head and body."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = 0
            for line in head.lower().split(b"\r\n"):
                if line.startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            return head + await self.reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise Closed from None

    async def say(self, *pieces: bytes) -> None:
        """Each piece on its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)


Script = Callable[[Peer], Awaitable[None]]


@dataclass
class RawServer:
    url: str = ""
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def raw_server(script: Script) -> AsyncIterator[RawServer]:
    """`script` plays one connection; the connection is closed when it returns."""
    record = RawServer()
    tasks: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        writers.append(writer)
        record.connections += 1
        peer = Recording(reader, writer, record)
        try:
            await script(peer)
        except (Closed, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=8 * 1024 * 1024)
    record.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield record
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:  # closed for good before the loop is, however slow the machine
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        await server.wait_closed()


@dataclass
class Recording(Peer):
    record: RawServer

    async def request(self) -> bytes:
        asked = await super().request()
        self.record.requests.append(asked)
        return asked


def always(*pieces: bytes) -> Script:
    """Every request of a connection gets the same answer."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(*pieces)

    return script


def once(*pieces: bytes) -> Script:
    """One answer, then the connection is closed."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(*pieces)

    return script

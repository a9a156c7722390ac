"""The answer of a server that ends at each start: without one its callers would wait in its backlog for hours."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gym.labels import HEADER_ERROR
from gym.wire.failures import RolloutError
from gym.wire.server_types import KINDS

READ_SECONDS: Final = 5.0  # seconds for a caller to finish its request
PIECE: Final = 1 << 16


def failure_of(instance: str, type: str, detail: str) -> RolloutError:
    what = f"{instance} ends at each start ({detail}): `gym logs {instance}` shows why"
    return RolloutError(KINDS.get(type, "resources"), what, server=instance, status=503)


@asynccontextmanager
async def refusing(listener: socket.socket, failure: RolloutError) -> AsyncIterator[None]:
    """Each connection that waits or comes meanwhile is answered with the failure; then the socket is as it was."""
    body = failure.to_body()
    head = f"HTTP/1.1 {failure.status} Service Unavailable\r\ncontent-type: application/json\r\nconnection: close\r\n"
    head += "retry-after: 1\r\n"
    reply = f"{head}{HEADER_ERROR}: {failure.kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                await reader.read(PIECE)  # a client whose request was not read takes the close for a lost connection
                writer.write(reply)
                writer.write_eof()
                while await reader.read(PIECE):
                    pass
        writer.close()

    server = await asyncio.start_server(refuse, sock=listener.dup())
    try:
        yield
    finally:
        server.close()

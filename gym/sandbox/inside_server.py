"""HTTP on connections that come out of a sandbox: an ASGI app serves them, and listens on no address of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from gym.sandbox.relay import ConnectionLost, RelayConnection

PIECE: Final = 65536
KEEP_ALIVE: Final = 600  # seconds; clients of some programs fail when an idle connection is closed


class InsideServer:
    """`accept` fits `gym.sandbox.inside_port.OnConnection`. `aclose` returns when no request is served any more."""

    def __init__(self, app: Any) -> None:
        config = uvicorn.Config(
            app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False, server_header=False
        )
        config.timeout_keep_alive = KEEP_ALIVE
        config.load()
        self._config = config
        self._state = ServerState()
        self._serving: set[asyncio.Task[None]] = set()
        self._closed = False

    def accept(self, connection: RelayConnection) -> None:
        if self._closed:
            connection.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(connection))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def aclose(self) -> None:
        self._closed = True
        for task in tuple(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        if self._state.tasks:
            await asyncio.wait(self._state.tasks)

    async def _serve(self, connection: RelayConnection) -> None:
        ours, theirs = socket.socketpair()
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(self._protocol, theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            await carry(connection, reader, writer)
        finally:
            connection.abort()
            writer.close()
            transport.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _protocol(self) -> asyncio.Protocol:
        return HttpToolsProtocol(config=self._config, server_state=self._state, app_state={})


async def carry(connection: RelayConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Both ways, until one side has ended."""

    async def send() -> None:
        while data := await connection.read():
            writer.write(data)
            await writer.drain()

    async def receive() -> None:
        while data := await reader.read(PIECE):
            await connection.write(data)
        await connection.end()
        await connection.flush()

    tasks = [asyncio.ensure_future(send()), asyncio.ensure_future(receive())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(found, Exception) and not isinstance(found, (ConnectionLost, OSError)):
                raise found

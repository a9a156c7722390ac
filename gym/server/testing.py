"""Runs an app on a real socket for a test: `async with running(app) as url`."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn


@asynccontextmanager
async def running(app: Any) -> AsyncIterator[str]:
    """The app under uvicorn on this event loop, started and healthy; stopped and drained at the end."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(256)
    config = uvicorn.Config(app, http="httptools", ws="none", lifespan="on", log_config=None, log_level="warning")
    config.timeout_graceful_shutdown = 5
    server = uvicorn.Server(config)
    await _start(server, listener)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await server.shutdown(sockets=[listener])


async def _start(server: uvicorn.Server, listener: socket.socket) -> None:
    # Not `Server.serve`: it takes over the process's signal handlers, and looks for its end ten times a second.
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup(sockets=[listener])
    if server.should_exit:
        listener.close()
        raise RuntimeError("the app did not start; its log says why")

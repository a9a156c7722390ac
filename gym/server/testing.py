"""Runs an app on a real socket for a test: `async with running(app) as url`."""

from __future__ import annotations

import asyncio
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
    serving = asyncio.create_task(_serve(server, listener))
    try:
        while not server.started:
            if serving.done():
                await serving
                raise RuntimeError("the app did not start; its log says why")
            await asyncio.sleep(0.005)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listener.close()


async def _serve(server: uvicorn.Server, listener: socket.socket) -> None:
    # `serve` would take over the process's signal handlers: not ours to take in a test.
    if not server.config.loaded:
        server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    await server.startup(sockets=[listener])
    if not server.should_exit:
        await server.main_loop()
        await server.shutdown(sockets=[listener])

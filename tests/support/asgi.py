"""Small ASGI apps of tests."""

from __future__ import annotations

from typing import Any


async def live(receive: Any, send: Any) -> None:
    """The whole of an app's life where it has nothing to start or to stop."""
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def read_body(receive: Any) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body

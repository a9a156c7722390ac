"""The body of a request, whole: by ASGI where nothing better is there, and what is said where it does not come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import orjson

from gym.wire.failures import RolloutError

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

MAX_BODY: Final = 256 * 1024 * 1024


async def read_body(receive: Receive, max_body: int = MAX_BODY) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise caller_gone()
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > max_body:
            raise RolloutError("row", f"the body is larger than {max_body // 2**20} MiB", status=413)
        chunks.append(chunk)
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def parse_body(raw: bytes, read: Callable[[bytes], Any] = orjson.loads) -> dict[str, Any]:
    try:
        body = read(raw)
    except orjson.JSONDecodeError as error:
        raise RolloutError("row", f"body: not JSON: {error}") from None
    if not isinstance(body, dict):
        raise RolloutError("row", f"body: an object is needed, found {type(body).__name__}")
    return body


def caller_gone() -> RolloutError:
    return RolloutError("cancelled", "the caller went away while it was sending")

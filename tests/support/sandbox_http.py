"""One plain request to a broker, as any program in any language would send it."""

from __future__ import annotations

from typing import Any

import orjson

from gym.http.pool import HttpClient, Reply
from tests.support.sandbox_broker import TOKEN, Running


async def send(
    running: Running, method: str, path: str, body: Any = None, token: str = TOKEN, **headers: str
) -> tuple[Reply, Any]:
    http = HttpClient()
    pairs = [(b"authorization", f"Bearer {token}".encode())]
    pairs += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    content = b"" if body is None else orjson.dumps(body)
    try:
        reply = await http.request(method, running.url + path, body=content, headers=pairs, timeout=120)
    finally:
        await http.aclose()
    return reply, orjson.loads(reply.body)

"""Runs an app on a real socket for a test: `async with running(app) as url`; `Caller(url)` talks to it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, Self

import orjson
import uvicorn

from gym.server.http import HttpClient, Reply


class Answered(NamedTuple):
    status: int
    body: Any  # parsed where it is JSON, else bytes
    reply: Reply


class Caller:
    """One rollout's client: keeps the cookies it is given. Use it as an async context manager."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.cookies: dict[str, str] = {}
        self._http = HttpClient()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def post(self, path: str, body: Any = b"", **headers: str) -> Answered:
        """`body` is sent as it is when it is bytes, else as JSON; `x_gym_timeout="2"` is a header."""
        return await self._send("POST", path, body if isinstance(body, bytes) else orjson.dumps(body), headers)

    async def get(self, path: str, **headers: str) -> Answered:
        return await self._send("GET", path, b"", headers)

    async def _send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answered:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]
        reply = await self._http.request(method, self.url + path, body=body, headers=pairs, timeout=60)
        for name, value in reply.headers:
            if name == b"set-cookie":
                key, _, content = value.decode("latin-1").partition(";")[0].partition("=")
                self.cookies[key] = content
        return Answered(reply.status, _parse(reply.body), reply)


@asynccontextmanager
async def running(app: Any) -> AsyncIterator[str]:
    """The app under uvicorn on this event loop, started and healthy; stopped and drained at the end."""
    # asyncio turns Nagle's algorithm off only on sockets that say TCP aloud; else every reply costs 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
    with suppress(SystemExit):  # how newer uvicorns say that the app did not start
        await server.startup(sockets=[listener])
    if not server.started:
        listener.close()
        raise RuntimeError("the app did not start; its log says why")


def _parse(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return body

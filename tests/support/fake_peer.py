"""A server of JSON in the place of a stack, or of a trainer: a function answers each request, and all are recorded."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from gym.server.testing import running
from tests.support.asgi import live, read_body

Json = dict[str, Any]
Reply = tuple[int, Any]
Answer = Callable[[str, str, Json], Reply | Awaitable[Reply]]  # of method, path and body
NEVER = (0, None)  # no reply at all


@dataclass
class FakePeer:
    answer: Answer
    url: str = ""
    asked: list[tuple[str, str, Json]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        raw = await read_body(receive)
        request = (scope["method"], scope["path"], orjson.loads(raw) if raw else {})
        self.asked.append(request)
        self.keys.append(dict(scope["headers"]).get(b"authorization", b"").decode())
        answer = self.answer(*request)
        status, reply = await answer if inspect.isawaitable(answer) else answer
        if (status, reply) == NEVER:
            await receive()  # until the caller goes away
            return
        kind = (b"content-type", b"application/json")
        await send({"type": "http.response.start", "status": status, "headers": [kind]})
        await send({"type": "http.response.body", "body": orjson.dumps(reply)})


@asynccontextmanager
async def fake_peer(answer: Answer) -> AsyncIterator[FakePeer]:
    peer = FakePeer(answer)
    async with running(peer) as url:
        peer.url = url
        yield peer


def verified(row: Json, *output: Json, reward: Any = 1.0, **fields: Any) -> Json:
    """What `/run` answers."""
    return {**row, "response": {"output": list(output)}, "reward": reward, **fields}


def failed(kind: str, message: str, *, retryable: bool = True) -> Json:
    return {"error": {"kind": kind, "server": "agent", "message": message, "retryable": retryable}}

"""A stack of which only the doors that a trainer's client uses are there, with replies as a test wants them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from gym.server.testing import running
from tests.support.asgi import live, read_body

Json = dict[str, Any]
Replies = Callable[[Json, int], Awaitable[tuple[int, bytes]]]


def rollout(row: Json, **fields: Any) -> tuple[int, bytes]:
    """A verified rollout of one call, with token ids."""
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A"}]}
    tokens = {"prompt_token_ids": [1, 2], "generation_token_ids": [3], "generation_log_probs": [-0.5]}
    return 200, orjson.dumps({**row, "response": {"output": [said | tokens]}, "reward": 1.0, **fields})


def failure(status: int, kind: str, *, retryable: bool) -> tuple[int, bytes]:
    error = {"kind": kind, "server": "agent", "message": "out of order", "retryable": retryable}
    return status, orjson.dumps({"error": error})


async def answer_all(row: Json, attempt: int) -> tuple[int, bytes]:
    return rollout(row)


@dataclass
class FakeStack:
    """`replies` gets a row and how often it was sent; `token` is asked for where there is one."""

    replies: Replies = answer_all
    token: str = ""
    url: str = ""
    model: Json = field(default_factory=lambda: {"version": 1, "reached": True})
    servers: list[Json] = field(default_factory=list)
    rows: list[Json] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    hung_up: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)  # rows whose caller went away

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        body = await read_body(receive)
        status, reply = await self._answer(scope["path"], headers, body, receive)
        length = (b"content-length", b"%d" % len(reply))
        await send({"type": "http.response.start", "status": status, "headers": [length]})
        await send({"type": "http.response.body", "body": reply})

    async def _answer(self, path: str, headers: dict[str, str], body: bytes, receive: Any) -> tuple[int, bytes]:
        if self.token and headers.get("authorization") != f"Bearer {self.token}":
            return 401, b'{"error":"this stack asks for its token"}'
        if path == "/discovery":
            return 200, b'{"stack":"fake","instances":{}}'
        if path == "/servers":
            return 200, orjson.dumps({"servers": self.servers})
        if path.startswith("/admin/models/"):
            return 200, orjson.dumps(self.model)
        row = orjson.loads(body)
        self.rows.append(row)
        self.ids.append(headers["x-gym-rollout-id"])
        times = sum(one["_rowidx"] == row["_rowidx"] for one in self.rows)
        return await self._unless_hung_up(self.replies(row, times), row, receive)

    async def _unless_hung_up(self, reply: Awaitable[tuple[int, bytes]], row: Json, receive: Any) -> tuple[int, bytes]:
        work, gone = asyncio.ensure_future(reply), asyncio.ensure_future(receive())
        await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            gone.cancel()
            return work.result()
        work.cancel()
        self.hung_up.put_nowait(row["_rowidx"])
        return 499, b""


@asynccontextmanager
async def fake_stack(replies: Replies = answer_all, token: str = "") -> AsyncIterator[FakeStack]:
    stack = FakeStack(replies, token)
    async with running(stack) as url:
        stack.url = url
        yield stack

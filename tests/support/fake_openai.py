"""An inference provider on a real socket, as strict and as faulty as a test asks it to be.

Serves /v1/models, /v1/responses, /v1/chat/completions (JSON and SSE), Azure's deployment paths and /tokenize.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from gym.server.testing import running
from gym.wire import items, sse
from gym.wire.completions import response_to_completion
from tests.support.asgi import live

Body = dict[str, Any]


@dataclass
class Asked:
    """One request that reached the provider."""

    path: str
    query: str
    headers: dict[str, str]
    body: Body


@dataclass
class Failure:
    status: int
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class FakeOpenAI:
    """`failures` are given first, in order; then `answer` makes the output items of a Responses reply."""

    answer: Callable[[Body], list[items.Item]] = lambda body: [items.message(f"echo {last_text(body)}")]
    failures: list[Failure] = field(default_factory=list)
    token_ids: bool = False
    chat_only: bool = False
    finish_reason: str = ""
    api_key: str = ""
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        raw = b""
        while True:
            message = await receive()
            raw += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        body = orjson.loads(raw) if raw else {}
        self.asked.append(Asked(scope["path"], scope["query_string"].decode(), headers, body))
        status, reply, more = self._reply(scope["path"], headers, body)
        kind = sse.CONTENT_TYPE if reply.startswith((b"event:", b"data:")) else b"application/json"
        head = [(b"content-type", kind), *((key.encode(), value.encode()) for key, value in more.items())]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": reply})

    def _reply(self, path: str, headers: dict[str, str], body: Body) -> tuple[int, bytes, dict[str, str]]:
        if self.failures:
            failure = self.failures.pop(0)
            content = failure.body if isinstance(failure.body, bytes) else orjson.dumps(failure.body)
            return failure.status, content, failure.headers
        if self.api_key and f"Bearer {self.api_key}" != headers.get("authorization"):
            words = f"Incorrect API key provided: {headers.get('authorization')}"
            return 401, orjson.dumps({"error": {"message": words}}), {}
        if path.endswith("/models"):
            return 200, orjson.dumps({"object": "list", "data": [{"id": "fake", "object": "model"}]}), {}
        if path.endswith("/tokenize"):
            return 200, orjson.dumps({"tokens": _tokens(orjson.dumps(body.get("messages")).decode())}), {}
        if path.endswith("/responses") and not self.chat_only:
            return 200, self._response(body), {}
        if path.endswith("/chat/completions"):
            return 200, self._completion(body), {}
        return 404, orjson.dumps({"error": {"message": f"no route {path}"}}), {}

    def _response(self, body: Body) -> bytes:
        output = self.answer(body)
        reply = items.response(output, model=body["model"], params=body, usage=items.text_usage(7, 5))
        return sse.response_events(reply) if body.get("stream") else orjson.dumps(reply)

    def _completion(self, body: Body) -> bytes:
        asked = {**body, "input": [one for one in body["messages"] if one["role"] != "tool"]}
        reply = items.response(self.answer(asked), model=body["model"], usage=items.text_usage(7, 5))
        completion = response_to_completion(reply, body)
        if self.finish_reason:
            completion["choices"][0]["finish_reason"] = self.finish_reason
        if self.token_ids:
            text = completion["choices"][0]["message"]["content"] or ""
            completion["choices"][0]["message"] |= {
                "prompt_token_ids": _tokens(last_text(asked)),
                "generation_token_ids": _tokens(text),
                "generation_log_probs": [-0.5 for _ in _tokens(text)],
            }
        return sse.completion_events(completion) if body.get("stream") else orjson.dumps(completion)


def last_text(body: Body) -> str:
    """The last user message of either dialect."""
    users = [one for one in items.input_items(body.get("input")) if one.get("role") == "user"]
    return items.item_text(users[-1]) if users else ""


@asynccontextmanager
async def fake_openai(**options: Any) -> AsyncIterator[FakeOpenAI]:
    provider = FakeOpenAI(**options)
    async with running(provider) as url:
        provider.url = f"{url}/v1"
        yield provider


def _tokens(text: str) -> list[int]:
    return [sum(word.encode()) for word in text.split()]

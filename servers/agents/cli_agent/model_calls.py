"""The model as one program in a sandbox sees it: a session of the model server, for as long as its rollout lasts.

Served on connections out of the sandbox alone. Nothing but model calls is passed on, and none under another key; what
goes wrong with the model is remembered, for a program that ends because of it has not failed by its own doing.
"""

from __future__ import annotations

import asyncio
import hmac
import math
import secrets
import time
from collections.abc import Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final

import orjson

from gym.http.pool import Reply
from gym.labels import HEADER_ERROR
from gym.server.asgi import Answer, Receive, Scope, Send, send_answer
from gym.server.rollout_client import RolloutClient
from gym.wire.failures import RolloutError, error_from_reply
from gym.wire.json_text import write_json

CALLS: Final = frozenset(("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"))
MAX_BODY: Final = 64 << 20
SAMPLING: Final = ("temperature", "top_p")  # called the same in every dialect; the row's win over the program's
INFRASTRUCTURE: Final = frozenset((401, 403, 404, 408, 409, 429))  # of a model server that says no kind


class ModelCalls:
    """ASGI. Of one rollout."""

    def __init__(self, rollout: RolloutClient, model: str, params: Mapping[str, Any], max_calls: int | None) -> None:
        self.key = f"gym-{secrets.token_hex(16)}"
        self.answered = 0
        self.max_seconds = math.inf  # of the program itself, as `seconds_used` counts them
        self.spent = asyncio.Event()  # it has asked once more than it may
        self._rollout, self._model, self._max_calls = rollout, model, max_calls
        self._sampling = {name: params[name] for name in SAMPLING if params.get(name) is not None}
        self._asked = 0
        self._failed: dict[bytes, RolloutError] = {}  # requests that the infrastructure left without an answer
        self._in_flight = 0
        self._waited = 0.0  # seconds in which the program had a call in flight
        self._since = 0.0
        self._first: tuple[float, float] | None = None  # when the first answer came, and `seconds_waited` by then

    @property
    def failure(self) -> RolloutError | None:
        """Of a call that has not been answered since, however often the program asked again."""
        return next(iter(self._failed.values()), None)

    def seconds_waited(self) -> float:
        return self._waited + (time.monotonic() - self._since if self._in_flight else 0.0)

    def seconds_used(self) -> float:
        """By the program itself, since it had its first answer: before it, the policy had no part in anything."""
        if self._first is None:
            return 0.0
        at, waited = self._first
        return time.monotonic() - at - (self.seconds_waited() - waited)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"].rstrip("/")
        if method in ("GET", "HEAD"):
            await send_answer(send, self._look(path))
        elif not self._may_ask(dict(scope["headers"])):
            await send_answer(send, refusal(401, "authentication_error", "not the key of this rollout"))
        elif path not in CALLS:
            what = f"no such path: there are {', '.join(sorted(CALLS))}"
            await send_answer(send, refusal(404, "not_found_error", what))
        else:
            await self._serve(path, receive, send)

    def _look(self, path: str) -> Answer:
        model = {"id": self._model, "object": "model", "created": 0, "owned_by": "gym", "type": "model"}
        if path == "/v1/models":
            return Answer(write_json({"object": "list", "data": [model], "has_more": False}))
        return Answer(write_json(model)) if path.startswith("/v1/models/") else Answer(b'{"status":"ok"}')

    def _may_ask(self, headers: Mapping[bytes, bytes]) -> bool:
        bearer = headers.get(b"authorization", b"").rpartition(b" ")[2]
        given = (bearer, headers.get(b"x-api-key", b""), headers.get(b"api-key", b""))
        return any(hmac.compare_digest(one, self.key.encode()) for one in given)

    async def _serve(self, path: str, receive: Receive, send: Send) -> None:
        body = await read_whole(receive)
        if body is None:
            await send_answer(send, refusal(413, "request_too_large", f"a request of more than {MAX_BODY} bytes"))
            return
        if not path.endswith("count_tokens") and not self._count():
            self.spent.set()
            what = f"this rollout has made the {self._max_calls} model calls that it may"
            await send_answer(send, refusal(403, "permission_error", what))
            return
        gone = asyncio.ensure_future(wait_gone(receive))
        asking = asyncio.ensure_future(self._ask(path, self._sampled(body)))
        try:
            await asyncio.wait((gone, asking), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                await send_answer(send, asking.result())
        finally:
            gone.cancel()
            asking.cancel()
            await asyncio.gather(gone, asking, return_exceptions=True)

    def _count(self) -> bool:
        self._asked += 1
        return self._max_calls is None or self._asked <= self._max_calls

    def _sampled(self, body: bytes) -> bytes:
        """What cannot be read is sent on as it is, for the model server to refuse."""
        if not self._sampling:
            return body
        try:
            asked = orjson.loads(body)
        except orjson.JSONDecodeError:
            return body
        return orjson.dumps({**asked, **self._sampling}) if isinstance(asked, dict) else body

    async def _ask(self, path: str, body: bytes) -> Answer:
        trace, place = self._rollout.trace, sha256(body).digest()
        assert trace is not None
        with self._waiting():
            try:
                reply = await self._rollout.send(
                    self._rollout.model_server, trace.call_path(path), body, kind="model", hop="model"
                )
            except RolloutError as error:
                self._failed[place] = error
                return Answer(error.to_body(), error.status)
        if reply.status < 400:
            self._failed.pop(place, None)
            if not path.endswith("count_tokens"):
                self.answered += 1
                self._first = self._first or (time.monotonic(), self.seconds_waited())
                trace.answered += 1
        elif is_infrastructure(reply):
            failure = error_from_reply(reply.status, reply.body, server=self._rollout.model_server, kind="model")
            self._failed[place] = trace.explain(failure)
        return Answer(reply.body, reply.status, content_type=reply.header(b"content-type") or b"application/json")

    @contextmanager
    def _waiting(self) -> Any:
        if not self._in_flight:
            self._since = time.monotonic()
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._waited += time.monotonic() - self._since


def is_infrastructure(reply: Reply) -> bool:
    """A request that the model server refuses is the program's own; the program reads why."""
    kind = reply.header(HEADER_ERROR.encode())
    if kind is not None:
        return kind not in (b"row", b"budget")
    return reply.status >= 500 or reply.status in INFRASTRUCTURE


def refusal(status: int, kind: str, message: str) -> Answer:
    """As clients of both makers read an error."""
    return Answer(write_json({"type": "error", "error": {"type": kind, "message": message, "code": kind}}), status)


async def read_whole(receive: Receive) -> bytes | None:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if message["type"] == "http.disconnect" or not message.get("more_body"):
            return bytes(body)


async def wait_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

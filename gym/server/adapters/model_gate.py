"""The policy at a URL of one rollout: what reaches it is a model call of the rollout's recorded session, or is refused.

Every call goes the way of the rollout: to the replica that records its session, with its deadline and its own policy
endpoint. Who serves it, and what a failure on that way means, is for the subclass to say.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import orjson

from gym.http.pool import Reply
from gym.labels import HEADER_ERROR
from gym.server.adapters.play_tools import PlayLimits
from gym.server.asgi import Answer, Receive, Scope, Send, send_answer
from gym.server.request_body import read_body
from gym.server.rollout_client import RolloutClient
from gym.wire.failures import RolloutError, error_from_reply
from gym.wire.json_text import write_json

LONGEST: Final = {
    "/v1/responses": ("max_output_tokens",),
    "/v1/chat/completions": ("max_tokens", "max_completion_tokens"),
    "/v1/messages": ("max_tokens",),
}  # a dialect's names of max_output_tokens; the first is written
COUNT_TOKENS: Final = "/v1/messages/count_tokens"  # no call of the policy: it costs no step
SAME: Final = ("model", "temperature", "top_p")  # named alike in every dialect
OF_THE_CALLER: Final = frozenset((b"row", b"budget"))  # kinds of failure that a request can cause
TOKENS: Final = re.compile(rb'"(total_tokens|input_tokens|output_tokens)":\s*(\d+)')
MAX_BODY: Final = 64 << 20
ERROR_TYPES: Final = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}


class CallClock:
    """How long calls have been under way; two at once count once."""

    def __init__(self) -> None:
        self._busy = 0
        self._busy_since = self._waited = 0.0

    @property
    def is_waiting(self) -> bool:
        return self._busy > 0

    def seconds(self) -> float:
        return self._waited + (time.monotonic() - self._busy_since if self._busy else 0.0)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        if not self._busy:
            self._busy_since = time.monotonic()
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            if not self._busy:
                self._waited += time.monotonic() - self._busy_since


class ModelGate:
    """ASGI, of one rollout. `limits` counts its model calls and its tokens, and refuses what is beyond them."""

    failure_headers: ClassVar[tuple[tuple[bytes, bytes], ...]] = ()  # of a model call that was not answered

    def __init__(self, rollout: RolloutClient, params: Mapping[str, Any], limits: PlayLimits, model: str = "") -> None:
        self.key = f"gym-{secrets.token_hex(16)}"
        self.model = str(params.get("model") or model or rollout.model_server)  # a name; the server answers to any
        self.answered = 0
        self.clock = CallClock()
        self.limits = limits
        self._rollout = rollout
        self._given = {name: params[name] for name in SAME if params.get(name) is not None}
        self._longest = params.get("max_output_tokens")
        self._serving: set[asyncio.Task[Any]] = set()
        self._closed = False

    # What a subclass says.

    def note_failure(self, body: bytes, error: RolloutError) -> None:
        """The infrastructure has left `body` without an answer."""
        raise NotImplementedError

    def note_answer(self, body: bytes) -> None:
        """The model has answered it."""

    async def answer_other(self, method: str, path: str, body: bytes) -> Answer:
        return refusal(404, f"there is no {method} {path} here; there are {', '.join(LONGEST)} and {COUNT_TOKENS}")

    # What it does.

    async def aclose(self) -> None:
        """Nothing is answered any more, and what is being answered is dropped."""
        self._closed = True
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.serve(scope["path"], scope, receive, send)

    async def serve(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await read_body(receive, MAX_BODY)
        except RolloutError as error:  # too large, or its caller went away
            await send_answer(send, refusal(error.status, error.message))
            return
        gone = asyncio.ensure_future(_wait_gone(receive))
        asked = asyncio.ensure_future(self.answer(scope["method"], path.rstrip("/"), dict(scope["headers"]), body))
        self.track(asked)
        try:
            await asyncio.wait((gone, asked), return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                await send_answer(send, refusal(403, self.why()) if asked.cancelled() else asked.result())
        finally:
            for task in (gone, asked):
                task.cancel()
            await asyncio.gather(gone, asked, return_exceptions=True)

    def track(self, task: asyncio.Task[Any]) -> None:
        """It ends with the gate."""
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def why(self) -> str:
        """Nothing is answered any more."""
        if self._rollout.episode_over:
            return "the environment has ended the episode"
        return f"the rollout has spent its {self.limits.spent}" if self.limits.spent else "the rollout has ended"

    async def answer(self, method: str, path: str, headers: Mapping[bytes, bytes], body: bytes) -> Answer:
        if not self._has_key(headers):
            return refusal(401, "this is not the key of this rollout")
        if method == "GET" and path == "/v1/models":
            return self.list_models()
        if method != "POST" or path not in (*LONGEST, COUNT_TOKENS):
            return await self.answer_other(method, path, body)
        if path == COUNT_TOKENS:
            return await self._ask(path, body)
        if self._closed or self._rollout.episode_over:
            self.limits.end()
        if not self.limits.take_step():
            return refusal(403, self.why())
        return await self._ask(path, self._sampled(path, body))

    def describe_model(self) -> dict[str, Any]:
        return {"id": self.model, "object": "model", "created": 0, "owned_by": "gym", "type": "model"}

    def list_models(self) -> Answer:
        return Answer(write_json({"object": "list", "data": [self.describe_model()], "has_more": False}))

    async def _ask(self, path: str, body: bytes) -> Answer:
        trace, server = self._rollout.trace, self._rollout.model_server
        assert trace is not None
        try:
            with self.clock.waiting():
                reply = await self._rollout.send(server, trace.call_path(path), body, kind="model", hop="model")
        except RolloutError as error:
            self.note_failure(body, error)
            return Answer(error.to_body(), error.status, self.failure_headers)
        if reply.status < 400 and path in LONGEST:
            self.answered += 1
            trace.answered += 1
            self.limits.tokens += _tokens_in(reply.body)
            self.note_answer(body)
        elif reply.status >= 400 and not is_callers(reply):
            failure = error_from_reply(reply.status, reply.body, server=server, kind="model")
            self.note_failure(body, trace.explain(failure))
        content_type = reply.header(b"content-type") or b"application/json"
        return Answer(reply.body, reply.status, self.failure_headers if reply.status >= 400 else (), content_type)

    def _sampled(self, path: str, body: bytes) -> bytes:
        """The row says how its rollouts are sampled. What cannot be read the model server refuses."""
        if not self._given and self._longest is None:
            return body
        try:
            asked = orjson.loads(body)
        except orjson.JSONDecodeError:
            return body
        if not isinstance(asked, dict):
            return body
        if self._longest is not None:
            names = LONGEST[path]
            asked = {key: value for key, value in asked.items() if key not in names} | {names[0]: self._longest}
        return write_json({**asked, **self._given})

    def _has_key(self, headers: Mapping[bytes, bytes]) -> bool:
        bearer = headers.get(b"authorization", b"").rpartition(b" ")[2]
        given = (bearer, headers.get(b"x-api-key", b""), headers.get(b"api-key", b""))
        return any(hmac.compare_digest(one, self.key.encode()) for one in given)


def is_callers(reply: Reply) -> bool:
    """Whether the request itself was at fault; without a kind, a status that says so does."""
    kind = reply.header(HEADER_ERROR.encode())
    return reply.status in (400, 413, 422) if kind is None else kind in OF_THE_CALLER


def refusal(status: int, message: str) -> Answer:
    """As the clients of both makers read an error."""
    code = "rollout_ended" if status == 403 else "refused"
    error = {"type": ERROR_TYPES.get(status, "invalid_request_error"), "message": message, "code": code}
    return Answer(write_json({"type": "error", "error": error}), status, NOT_AGAIN)


def _tokens_in(body: bytes) -> int:
    """What a reply says that it cost: as JSON, or in the last event of a stream."""
    counts = {name: int(count) for name, count in TOKENS.findall(body)}
    return counts.get(b"total_tokens") or counts.get(b"input_tokens", 0) + counts.get(b"output_tokens", 0)


async def _wait_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


NOT_AGAIN: Final = ((b"x-should-retry", b"false"),)  # what the makers' own clients look at before they retry

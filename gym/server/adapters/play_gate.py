"""The policy, and the environment's tools over MCP, at a URL of one play, for as long as the play lasts.

Every call goes the way of the rollout: to the replica that records its session, with its deadline and its own policy
endpoint. What fails on that way ends the play; what the play itself does wrong is its answer.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import orjson
import uvicorn

from gym.http.pool import Reply
from gym.labels import HEADER_ERROR
from gym.server.adapters.play_mcp import answer_mcp
from gym.server.adapters.play_tools import PlayEnded, PlayLimits, PlayTool
from gym.server.asgi import Answer, Receive, Scope, Send, read_body, send_answer
from gym.server.rollout_client import RolloutClient
from gym.wire.failures import RolloutError, error_from_reply
from gym.wire.json_text import write_json

Json = dict[str, Any]
LONGEST: Final = {
    "/v1/responses": ("max_output_tokens",),
    "/v1/chat/completions": ("max_tokens", "max_completion_tokens"),
    "/v1/messages": ("max_tokens",),
}  # a dialect's names of max_output_tokens; the first is written
SAME: Final = ("model", "temperature", "top_p")  # named alike in every dialect
OF_THE_CALLER: Final = frozenset((b"row", b"budget"))  # kinds of failure that a request can cause
TOKENS: Final = re.compile(rb'"(total_tokens|input_tokens|output_tokens)":\s*(\d+)')


class PlayGate:
    """ASGI, of one play."""

    def __init__(self, rollout: RolloutClient, params: Mapping[str, Any], limits: PlayLimits) -> None:
        self.key = f"gym-{secrets.token_hex(16)}"
        self.answered = 0
        self.tools: Sequence[PlayTool] = ()
        self._rollout, self._limits = rollout, limits
        self._given = {name: params[name] for name in SAME if params.get(name) is not None}
        self._longest = params.get("max_output_tokens")
        self._began = time.monotonic()
        self._busy = 0  # calls to the model and to tools in flight
        self._busy_since = self._waited = 0.0
        self._serving: set[asyncio.Task[Any]] = set()
        self._closed = False

    @property
    def is_waiting(self) -> bool:
        return self._busy > 0

    def own_seconds(self) -> float:
        """How long the play has run, without the time in which a model or a tool was at work for it."""
        now = time.monotonic()
        return now - self._began - self._waited - (now - self._busy_since if self._busy else 0.0)

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

    async def call_tool(self, name: str, arguments: str, call: Any) -> str:
        """`call` makes it. What fails on the way ends the play."""
        if self._closed or not self._limits.take_call():
            raise PlayEnded(self._why())
        task = asyncio.current_task()
        assert task is not None
        self._track(task)  # a thread that is left behind does not take its call along
        try:
            with self.waiting():
                text: str = await call(name, arguments)
        except RolloutError as error:
            self._limits.fail(error)
            raise
        return text

    async def aclose(self) -> None:
        """Nothing is answered any more, and what is being answered is dropped."""
        self._closed = True
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def __call__(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        body = await read_body(receive)
        gone = asyncio.ensure_future(_wait_gone(receive))
        asked = asyncio.ensure_future(self._answer(scope["method"], path.rstrip("/"), headers, body))
        self._track(asked)
        try:
            await asyncio.wait((gone, asked), return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                await send_answer(send, _refusal(403, self._why()) if asked.cancelled() else asked.result())
        finally:
            for task in (gone, asked):
                task.cancel()
            await asyncio.gather(gone, asked, return_exceptions=True)

    def _track(self, task: asyncio.Task[Any]) -> None:
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _answer(self, method: str, path: str, headers: Mapping[bytes, bytes], body: bytes) -> Answer:
        if not self._has_key(headers):
            return _refusal(401, "this is not the key of this rollout")
        if path == "/mcp":
            return await self._mcp(method, body)
        if method == "GET" and path == "/v1/models":
            name = str(self._given.get("model") or self._rollout.model_server)
            model = {"id": name, "object": "model", "created": 0, "owned_by": "gym", "type": "model"}
            return Answer(write_json({"object": "list", "data": [model], "has_more": False}))
        if path == "/v1/messages/count_tokens":
            return await self._ask(path, body)
        if method != "POST" or path not in LONGEST:
            return _refusal(404, f"there is no {method} {path} here; there are {', '.join(LONGEST)} and /mcp")
        if self._closed or self._rollout.episode_over:
            self._limits.end()
            return _refusal(403, self._why())
        if not self._limits.take_step():
            return _refusal(403, self._why())
        return await self._ask(path, self._sampled(path, body))

    async def _mcp(self, method: str, body: bytes) -> Answer:
        if method != "POST":
            return _refusal(405, "this MCP server answers POST alone: it keeps no stream open")
        try:
            return await answer_mcp(body, self.tools)
        except RolloutError as error:
            return Answer(error.to_body(), error.status)
        except PlayEnded as error:
            return _refusal(403, str(error))

    async def _ask(self, path: str, body: bytes) -> Answer:
        trace, server = self._rollout.trace, self._rollout.model_server
        assert trace is not None
        try:
            with self.waiting():
                reply = await self._rollout.send(server, trace.call_path(path), body, kind="model", hop="model")
        except RolloutError as error:
            self._limits.fail(error)
            return Answer(error.to_body(), error.status, NOT_AGAIN)
        if reply.status < 400 and path in LONGEST:
            self.answered += 1
            trace.answered += 1
            self._limits.tokens += _tokens_in(reply.body)
        elif reply.status >= 400 and not _is_callers(reply):
            failure = error_from_reply(reply.status, reply.body, server=server, kind="model")
            self._limits.fail(trace.explain(failure))
        content_type = reply.header(b"content-type") or b"application/json"
        return Answer(reply.body, reply.status, NOT_AGAIN if reply.status >= 400 else (), content_type)

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
        given = (headers.get(b"authorization", b"").rpartition(b" ")[2], headers.get(b"x-api-key", b""))
        return any(hmac.compare_digest(one, self.key.encode()) for one in given)

    def _why(self) -> str:
        if self._rollout.episode_over:
            return "the environment has ended the episode"
        return f"the rollout has spent its {self._limits.spent}" if self._limits.spent else "the rollout has ended"


class GateKeeper:
    """One listener, on loopback, for all plays of a server; each has a path of its own that cannot be guessed."""

    def __init__(self) -> None:
        self.host = "127.0.0.1"  # where it listens; before the first play another address of this machine can be set
        self._gates: dict[str, PlayGate] = {}
        self._server: uvicorn.Server | None = None
        self._listener: socket.socket | None = None
        self._starting = asyncio.Lock()

    async def open(self, gate: PlayGate) -> str:
        """The URL of a play, without `/v1`."""
        async with self._starting:
            if self._listener is None:
                await self._listen()
        assert self._listener is not None
        place = secrets.token_hex(16)
        self._gates[place] = gate
        host, port, *_ = self._listener.getsockname()
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/{place}"

    async def close(self, url: str) -> None:
        gate = self._gates.pop(url.rpartition("/")[2], None)
        if gate is not None:
            await gate.aclose()

    async def aclose(self) -> None:
        if self._server is not None and self._listener is not None:
            await self._server.shutdown(sockets=[self._listener])
            self._listener.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        place, slash, path = scope["path"][1:].partition("/")
        gate = self._gates.get(place)
        if gate is None:
            await send_answer(send, _refusal(403, "the rollout of this URL has ended"))
            return
        try:
            await gate(slash + path, scope, receive, send)
        except RolloutError as error:  # its body is too large, or its caller went away
            await send_answer(send, Answer(error.to_body(), error.status))

    async def _listen(self) -> None:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind((self.host, 0))
        listener.listen(256)
        usual: dict[str, Any] = {"http": "httptools", "ws": "none", "lifespan": "off", "log_config": None}
        config = uvicorn.Config(self, interface="asgi3", log_level="warning", access_log=False, **usual)
        config.timeout_graceful_shutdown = 1
        config.timeout_keep_alive = 75
        server = uvicorn.Server(config)
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup(sockets=[listener])
        self._server, self._listener = server, listener


def _tokens_in(body: bytes) -> int:
    """What a reply says that it cost: as JSON, or in the last event of a stream."""
    counts = {name: int(count) for name, count in TOKENS.findall(body)}
    return counts.get(b"total_tokens") or counts.get(b"input_tokens", 0) + counts.get(b"output_tokens", 0)


def _is_callers(reply: Reply) -> bool:
    """Whether the request itself was at fault; without a kind, a status that says so does."""
    kind = reply.header(HEADER_ERROR.encode())
    return reply.status in (400, 413, 422) if kind is None else kind in OF_THE_CALLER


def _refusal(status: int, message: str) -> Answer:
    """As the clients of both makers read an error."""
    error = {"type": "permission_error", "message": message, "code": "rollout_ended" if status == 403 else "refused"}
    return Answer(write_json({"type": "error", "error": error}), status, NOT_AGAIN)


async def _wait_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


NOT_AGAIN: Final = ((b"x-should-retry", b"false"),)  # what the makers' own clients look at before they try again

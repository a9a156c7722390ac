"""Runs an app on a real socket for a test: `async with running(app) as url`; `Caller(url)` talks to it.

`async with scripted_judge("yes") as judge` is a judge for it: `MyServer.app(judge.fields, document=judge.document)`.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import orjson
import uvicorn

from gym.http.pool import HttpClient, Reply
from gym.server.asgi import Answer, Call
from gym.server.base import Route, Server, json_answer
from gym.server.case_rows import read_lines as read_lines  # for tests
from gym.server.one_write import OneWriteProtocol
from gym.server.prompt_server import PromptServer
from gym.wire import items
from gym.wire.failures import RolloutError
from gym.wire.json_text import parse_or, write_json

Rows = list[dict[str, Any]]  # what the fixture `rows` gives
ANSWER_SECONDS = 300.0  # only what hangs takes so long, on however busy a machine
STOP_SECONDS = 5


class Answered(NamedTuple):
    status: int
    body: Any  # parsed where it is JSON, else bytes
    reply: Reply

    @property
    def result(self) -> Any:
        """The body of a call that went well; of another the test shows the server's own words."""
        assert self.status == 200, f"answered {self.status}: {_failure_message(self.body)}"
        return self.body


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
        return await self._send("POST", path, body if isinstance(body, bytes) else write_json(body), headers)

    async def get(self, path: str, **headers: str) -> Answered:
        return await self._send("GET", path, b"", headers)

    async def _send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answered:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]
        reply = await self._http.request(method, self.url + path, body=body, headers=pairs, timeout=ANSWER_SECONDS)
        for name, value in reply.headers:
            if name == b"set-cookie":
                key, _, content = value.decode("latin-1").partition(";")[0].partition("=")
                self.cookies[key] = content
        return Answered(reply.status, parse_or(reply.body, reply.body), reply)


def body_of(row: Mapping[str, Any], answer: str) -> dict[str, Any]:
    """The body of a verify: this row, answered with this text."""
    return {**row, "response": items.response([items.message(answer)], model="test")}


async def verify(app: Any, body: Mapping[str, Any]) -> Answered:
    """One verify by an app that runs for it alone."""
    async with running(app) as url, Caller(url) as caller:
        return await caller.post("/verify", body)


Scripted = str | int | dict[str, Any]  # a text, a failure's HTTP status, or a whole Responses reply


@dataclass
class ScriptedJudge:
    """A model server that answers from a list, in order, and then no more."""

    name: str
    url: str
    texts: list[Scripted]
    asked: list[dict[str, Any]] = field(default_factory=list)
    answer: Callable[[dict[str, Any]], Scripted] | None = None  # instead of the list: by what is asked

    @property
    def fields(self) -> dict[str, Any]:
        """What a judged server's configuration says of it."""
        return {"judge_model_server": {"type": "responses_api_models", "name": self.name}}

    @property
    def document(self) -> dict[str, Any]:
        host, _, port = self.url.removeprefix("http://").partition(":")
        return {self.name: {"responses_api_models": {"scripted": {"host": host, "port": int(port)}}}}

    def next_answer(self) -> Scripted:
        if self.answer is not None:
            return self.answer(self.asked[-1])
        if not self.texts:
            raise RolloutError("model", "the scripted judge has no answer left", retryable=False)
        return self.texts.pop(0)

    @property
    def prompts(self) -> list[str]:
        """The last message of each question."""
        return [items.item_text(body["input"][-1]) for body in self.asked]


@asynccontextmanager
async def scripted_judge(*texts: Scripted, name: str = "judge_model") -> AsyncIterator[ScriptedJudge]:
    """On a real socket. `judge.texts` may be given again between calls; `judge.asked` is what it was asked."""
    judge = ScriptedJudge(name, "", list(texts))
    async with running(_ScriptedModel.app({}, name=name, document={_SCRIPT: judge})) as judge.url:
        yield judge


async def verify_judged(
    app: Any, row: Mapping[str, Any], answer: str, *judge: Scripted, **settings: Any
) -> tuple[Answered, list[str]]:
    """One verify of a row with a scripted judge; and what the judge was asked."""
    async with scripted_judge(*judge) as judging:
        own = app.configured({**judging.fields, **settings}, document=judging.document)
        return await verify(own, body_of(row, answer)), judging.prompts


_SCRIPT = "script"


class _ScriptedModel(Server):
    role = "model"
    server_type = "responses_api_models"

    def routes(self) -> list[Route]:
        return [Route("/v1/responses", self.respond)]

    async def respond(self, call: Call) -> Answer:
        judge: ScriptedJudge = self.settings.document[_SCRIPT]
        judge.asked.append(orjson.loads(call.body))
        scripted = judge.next_answer()
        if isinstance(scripted, int):
            raise RolloutError("model", f"the scripted judge has to fail with {scripted}", status=scripted)
        return json_answer(
            items.response([items.message(scripted)], model=self.name) if isinstance(scripted, str) else scripted
        )


@asynccontextmanager
async def running(app: Any) -> AsyncIterator[str]:
    """The app under uvicorn on this event loop, started and healthy; stopped and drained at the end."""
    # asyncio turns Nagle's algorithm off only on sockets that say TCP aloud; else every reply costs 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(256)
    usual: dict[str, Any] = {"http": OneWriteProtocol, "ws": "none", "lifespan": "on", "log_config": None}
    config = uvicorn.Config(app, interface="asgi3", log_level="warning", **usual)
    config.timeout_graceful_shutdown = STOP_SECONDS
    config.timeout_keep_alive = 60  # of uvicorn's 5 a busy machine may need more to make the next request
    server = PromptServer(config)
    await _start(server, listener)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await server.shutdown(sockets=[listener])


async def _start(server: PromptServer, listener: socket.socket) -> None:
    # Not `Server.serve`: it takes over the process's signal handlers, and looks for its end ten times a second.
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    with suppress(SystemExit):  # how newer uvicorns say that the app did not start
        await server.startup(sockets=[listener])
    if not server.started:
        listener.close()
        raise RuntimeError("the app did not start; its log says why")


def _failure_message(body: Any) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    return f"{error.get('kind')}: {error.get('message')}" if isinstance(error, dict) else str(body)

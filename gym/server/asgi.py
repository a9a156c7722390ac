"""The hot routes of a server: a dictionary in front of FastAPI, raw bodies in, raw bodies out.

FastAPI has the docs and the cold routes; what a rollout pays for goes past it (a third of the CPU per call).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gym.labels import HEADER_ERROR, HEADER_ROLLOUT, HEADER_TIMEOUT
from gym.server.call_counts import CallCounts
from gym.server.errors import error_to_failure
from gym.server.one_write import EXCHANGE, Exchange
from gym.server.request_body import read_body
from gym.wire.failures import RolloutError
from gym.wire.json_text import repair_body, write_json
from gym.wire.pieces import Body, body_size, join_body

if TYPE_CHECKING:
    from pydantic import BaseModel

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = (b"content-type", b"application/json")
SESSIONS = "/sessions/"  # /sessions/<id>/v1/...: a call that is recorded, at servers that have SESSION_ROUTE
SESSION_ROUTE = "/sessions/{id}"
SESSION_WORDS = frozenset(("", "trace", "traces", "holder"))
SESSION_UNKNOWN = SESSION_ROUTE + "/*"
CORRELATION = "/ng-rollout/"  # /ng-rollout/<id>[/training-token-capture]/v1/...: the rollout id in the path
WATCH_AFTER_SECONDS = 1.0


@dataclass(slots=True)
class Call:
    """One request, whole."""

    method: str
    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    rollout_id: str = ""
    session: str = ""  # the id in the path: of a session whose calls are recorded
    timeout: float | None = None  # seconds the caller is willing to wait
    began: float = field(default_factory=time.monotonic)
    failure_headers: tuple[tuple[bytes, bytes], ...] = ()  # headers that go with a failure too
    dialect: Callable[[RolloutError], Any] | None = None  # of a failure's body, where it is not the contract's

    def seconds_left(self, max_seconds: float) -> float:
        """Until the caller stops waiting, or `max_seconds`."""
        return max_seconds if self.timeout is None else min(max_seconds, self.began + self.timeout - time.monotonic())

    def read(self, parse: Callable[[bytes], T]) -> T:
        """The body, parsed. One with broken text cannot be: it is repaired then. For routes that are `raw`."""
        try:
            return parse(self.body)
        except RolloutError:
            repaired = repair_body(self.body)
            if repaired == self.body:
                raise
            self.body = repaired
            return parse(repaired)

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key == name), None)

    def cookies(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for key, value in self.headers:
            if key == b"cookie":
                for pair in value.decode("latin-1").split(";"):
                    name, _, content = pair.strip().partition("=")
                    found[name] = content
        return found


class Answer(NamedTuple):
    body: Body
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    content_type: bytes = b"application/json"
    whole: Mapping[str, Any] | None = None  # of an event stream: the reply that its events add up to


Handler = Callable[[Call], Awaitable[Answer]]


@dataclass(frozen=True)
class Route:
    """A hot route and what the docs say of it."""

    path: str
    handler: Handler
    summary: str = ""
    request: type[BaseModel] | None = None
    response: type[BaseModel] | None = None
    method: str = "POST"
    raw: bool = False  # the handler has the body by `call.read`: to look for broken text costs as much as to parse it


CURRENT: ContextVar[Call | None] = ContextVar("call", default=None)  # what is being served, for calls that it causes


@dataclass(slots=True)
class HotRoutes:
    """ASGI: known (method, path) pairs go to their handler, everything else to `app`."""

    app: App
    server: str  # the instance's name, for errors
    role: str  # what a bug here is called: "resources", "agent", "model"
    routes: Mapping[tuple[str, str], Handler]
    find_route: Callable[[str, str], Handler | None] | None = None  # of what is not in `routes`, by method and path
    mask: Callable[[RolloutError], RolloutError] | None = None  # takes the server's own secrets out of a failure
    quiet: Mapping[tuple[str, str], Callable[[], Answer]] = field(default_factory=dict)  # neither counted nor timed
    raw: frozenset[tuple[str, str]] = frozenset()
    counts: CallCounts = field(default_factory=CallCounts)
    in_flight: int = field(default=0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            exchange = scope.pop(EXCHANGE, None)  # a circle, if it stays: it knows the request, which has the scope
            path, rollout_id, session = self._split(scope["path"])
            handler = self.routes.get((scope["method"], path))
            if handler is None and self.find_route is not None:
                handler = self.find_route(scope["method"], path)
            if handler is not None:
                self.in_flight += 1
                self.counts.began += 1
                try:
                    call = Call(scope["method"], path, scope["headers"], b"", rollout_id, session)
                    await self._serve(handler, call, receive, send, exchange)
                finally:
                    self.in_flight -= 1
                return
            if (answer := self.quiet.get((scope["method"], path))) is not None:
                await send_answer(send, self._answer_quietly(answer))
                return
            prefix = next((value for key, value in scope["headers"] if key == b"x-forwarded-prefix"), b"")
            scope = {**scope, "root_path": prefix.decode("latin-1")} if prefix else scope  # /docs behind the router
        await self.app(scope, receive, send)

    def _answer_quietly(self, answer: Callable[[], Answer]) -> Answer:
        try:
            return answer()
        except (Exception, SystemExit) as error:  # noqa: BLE001 (an author's `health`: it says what is wrong, and the server serves on)
            return failure_to_answer(self._failure(error))

    def _failure(self, error: BaseException, rollout_id: str = "") -> RolloutError:
        failure = error_to_failure(error, server=self.server, role=self.role, rollout_id=rollout_id)
        return failure if self.mask is None else self.mask(failure)

    def _split(self, path: str) -> tuple[str, str, str]:
        """Path, rollout id and session id."""
        plain, rollout_id = split_correlation(path)
        if ("GET", SESSION_ROUTE) not in self.routes:
            return plain, rollout_id, ""
        if not rollout_id and path.startswith(SESSIONS):
            plain, session = split_session(path)
            return plain, "", session
        return plain, rollout_id, rollout_id

    async def _serve(
        self, handler: Handler, call: Call, receive: Receive, send: Send, exchange: Exchange | None
    ) -> None:
        caller, began = CallerWatch(), time.perf_counter()
        try:
            body = await (read_body(receive) if exchange is None else exchange.read_body(receive))
            call.body = body if (call.method, call.path) in self.raw else repair_body(body)
            read_rollout_headers(call)
            caller.watch(receive, call.timeout)
            CURRENT.set(call)
            answer = await self._within_deadline(handler, call, caller)
        except asyncio.CancelledError as error:
            if caller.gone and caller.take_back_cancel():
                return
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            answer = failure_to_answer(self._failure(error, call.rollout_id), call.failure_headers, call.dialect)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 (the one boundary of a server: every failure becomes data)
            answer = failure_to_answer(self._failure(error, call.rollout_id), call.failure_headers, call.dialect)
        finally:
            caller.forget()
        self.counts.add(time.perf_counter() - began, answer.status)
        headers = [(b"content-type", answer.content_type), *answer.headers]
        if exchange is None or not exchange.reply(answer.status, headers, answer.body):
            await send_answer(send, answer)

    async def _within_deadline(self, handler: Handler, call: Call, caller: CallerWatch) -> Answer:
        try:
            return await handler(call)
        except asyncio.CancelledError:
            if caller.expired and caller.take_back_cancel():
                late = f"{call.path} was not done when the rollout's deadline passed"
                raise RolloutError("timeout", late, server=self.server) from None
            raise


class CallerWatch:
    """Cancels a call whose caller has gone, or whose time is over. Short calls pay for one timer and no more:
    whether the caller is there is looked for only once the call has lasted."""

    def __init__(self) -> None:
        self.gone = False
        self.expired = False
        self._task: asyncio.Task[Any] | None = None
        self._deadline: float | None = None
        self._cancels = 0  # of the task, not taken back
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None

    def watch(self, receive: Receive, seconds: float | None = None) -> None:
        """`seconds` are left until the deadline."""
        self._task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._deadline = None if seconds is None else now + seconds
        if seconds is not None and seconds <= WATCH_AFTER_SECONDS:
            self._timer = loop.call_at(now + seconds, self._expire)
        else:
            self._timer = loop.call_at(now + WATCH_AFTER_SECONDS, self._look, receive)

    def take_back_cancel(self) -> bool:
        """Takes one back that came from here. True where no other is left, of a server that stops."""
        if not self._cancels or self._task is None:
            return False
        self._cancels -= 1
        return self._task.uncancel() == 0

    def forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        while self._cancels:  # the call ended all the same: what comes after it is not to be cancelled
            self.take_back_cancel()

    def _look(self, receive: Receive) -> None:
        loop = asyncio.get_running_loop()
        self._watcher = loop.create_task(self._wait(receive))
        self._timer = None if self._deadline is None else loop.call_at(self._deadline, self._expire)

    async def _wait(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone = True
        self._cancel()

    def _expire(self) -> None:
        self.expired = True
        self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._cancels += 1
            self._task.cancel()


def failure_to_answer(
    failure: RolloutError,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    dialect: Callable[[RolloutError], Any] | None = None,
) -> Answer:
    body = failure.to_body() if dialect is None else write_json(dialect(failure))
    return Answer(body, failure.status, ((HEADER_ERROR.encode(), failure.kind.encode()), *headers))


def split_correlation(path: str) -> tuple[str, str]:
    """`/ng-rollout/7-1/v1/responses` is `/v1/responses` of rollout 7-1."""
    if not path.startswith(CORRELATION):
        return path, ""
    rollout_id, _, rest = path[len(CORRELATION) :].partition("/")
    return "/" + rest.removeprefix("training-token-capture/"), rollout_id


def split_session(path: str) -> tuple[str, str]:
    """`/sessions/x/v1/messages` is `/v1/messages` of session x, `/sessions/x/trace` is a route of its own."""
    session, slash, rest = path[len(SESSIONS) :].partition("/")
    if rest.startswith("v1/") and session:
        return "/" + rest, session
    return SESSION_ROUTE + slash + rest if rest in SESSION_WORDS else SESSION_UNKNOWN, session


def read_rollout_headers(call: Call) -> None:
    for name, value in call.headers:
        if name == _ROLLOUT:
            call.rollout_id = value.decode("latin-1")[:200]
        elif name == _TIMEOUT:
            call.timeout = _seconds(value)


async def send_answer(send: Send, answer: Answer) -> None:
    length = (b"content-length", b"%d" % body_size(answer.body))
    headers = [(b"content-type", answer.content_type), length, *answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": join_body(answer.body)})


def _seconds(value: bytes) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return max(seconds, 0.001) if seconds < 1e9 else None


_ROLLOUT = HEADER_ROLLOUT.encode()
_TIMEOUT = HEADER_TIMEOUT.encode()

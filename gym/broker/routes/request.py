"""One request to the broker and its reply: caller, deadline, bodies whole or streamed, every failure as data."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from gym.broker.config import BrokerCaller
from gym.broker.errors import Conflict, RequestRefused, RetryLater, engine_failure, forget_frames
from gym.broker.registry import SandboxEntry
from gym.broker.service import Broker, Requester
from gym.errors import GymError
from gym.labels import HEADER_ERROR, HEADER_ROLLOUT, HEADER_TIMEOUT
from gym.server.asgi import Answer, CallerWatch, Receive, Scope, Send, send_answer
from gym.server.errors import error_text, validation_message
from gym.wire.failures import RolloutError
from gym.wire.sandbox import HEADER_EPOCH, HEADER_REQUEST

log = logging.getLogger("gym.broker")
M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
MAX_JSON: Final = 32 << 20  # more than that goes in as a file
LONGEST_NAME: Final = 300  # of what is kept for a while under the name that the asker gives it
MORE: Final = ("errno", "path", "own_doing")  # of an error, beside what the contract has
BYTES: Final = b"application/octet-stream"


class RequestBody(BaseModel):
    """Base of the bodies of requests: unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Stream(NamedTuple):
    """A reply as it comes. The first chunk is awaited before the head is sent, so that a failure can still say so."""

    chunks: AsyncIterator[bytes]
    content_type: bytes = BYTES
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


Reply = Answer | Stream


@dataclass
class Request:
    broker: Broker
    caller: BrokerCaller
    method: str
    parts: tuple[str, ...]
    query: dict[str, str]
    headers: dict[bytes, bytes]
    receive: Receive
    departure: CallerWatch = field(default_factory=CallerWatch)
    deadline: float = float("inf")
    has_deadline: bool = False
    read: bool = False

    @property
    def name(self) -> str:
        return f"{self.method} /{'/'.join(part.partition('~')[0] for part in self.parts)}"

    def header(self, name: str) -> str:
        return self.headers.get(name.encode(), b"").decode("latin-1")[: LONGEST_NAME + 1]

    def entry(self) -> SandboxEntry:
        """The sandbox of the path, for commands and files: it may be another instance's, under its key."""
        return self.broker.registry.find_shared(self.parts[1], self.caller)

    def own_entry(self) -> SandboxEntry:
        return self.broker.registry.find(self.parts[1], self.caller)

    def requester(self, rollout: str = "", owner: str = "", request_id: str = "") -> Requester:
        return Requester(self.caller, rollout or self.header(HEADER_ROLLOUT), owner, request_id, self.deadline)

    def request_id(self, in_body: str | None = None) -> str:
        given = self.header(HEADER_REQUEST) or in_body or ""
        if len(given) > LONGEST_NAME:
            raise RequestRefused(f"a request's id has at most {LONGEST_NAME} characters", 422)
        return given

    async def chunks(self, idle: float | None = None) -> AsyncIterator[bytes]:
        """The body as it comes, never more of it in memory than what was just received; `idle` seconds between."""
        while not self.read:
            try:
                async with asyncio.timeout(idle):
                    message = await self.receive()
            except TimeoutError:
                self.read = True
                raise RolloutError("timeout", f"the body did not go on for {idle:g} s", server="sandbox") from None
            if message["type"] == "http.disconnect":
                self.read = True
                raise RolloutError("cancelled", "the caller went away while it was sending")
            if not message.get("more_body"):
                self.read = True
            if chunk := message.get("body", b""):
                yield chunk
        self.departure.watch(self.receive)

    async def body(self, max_bytes: int = MAX_JSON) -> bytes:
        found = bytearray()
        async for chunk in self.chunks():
            found += chunk
            if len(found) > max_bytes:
                raise RequestRefused(f"the body is larger than {max_bytes >> 20} MiB; put a file instead", 413)
        return bytes(found)

    async def parse(self, model: type[M]) -> tuple[M, bytes]:
        body = await self.body()
        return parse_body(model, body), body

    async def run_once(self, scope: str, request_id: str, body: bytes, work: Callable[[], Awaitable[bytes]]) -> bytes:
        """With an id: runs once however often it is sent. Without: is cancelled with its caller."""
        if not request_id:
            return await work()
        key = (self.caller.instance, scope, request_id)
        sent_to = self.header(HEADER_EPOCH)
        if sent_to and sent_to != self.broker.epoch and not self.broker.idempotency.knows(key) and scope:
            what = f"request {request_id!r} was first sent to a broker that has ended since"
            raise Conflict(f"{what}: whether it ran is not known, so it is not run again", retryable=True)

        async def run() -> bytes:
            return await work()

        return await self.broker.idempotency.run(key, body, run)


Handler = Callable[[Request], Awaitable[Reply]]


def parse_body(model: type[M], body: bytes) -> M:
    try:
        return model.model_validate(orjson.loads(body or b"{}"))
    except orjson.JSONDecodeError as error:
        raise RequestRefused(f"the body is not JSON: {error}", 422) from None
    except ValidationError as error:
        raise RequestRefused(validation_message(error), 422) from None


def read_request(broker: Broker, caller: BrokerCaller, scope: Scope, receive: Receive) -> Request:
    parts = tuple(part for part in scope["path"].split("/") if part)
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    request = Request(broker, caller, scope["method"], parts, query, dict(scope["headers"]), receive)
    loop = asyncio.get_running_loop()
    try:
        seconds = float(request.header(HEADER_TIMEOUT) or "nan")
    except ValueError:
        seconds = float("nan")
    request.has_deadline = 0 < seconds < 1e8
    request.deadline = loop.time() + (seconds if request.has_deadline else broker.config.settings.queue_seconds)
    return request


async def serve(request: Request, handler: Handler, send: Send) -> None:
    """Runs a handler until it is done, its deadline comes or its caller leaves."""
    started = False
    if request.method == "GET":
        request.departure.watch(request.receive)
    try:
        reply = await within(request, handler(request))
        if isinstance(reply, Answer):
            await send_answer(send, signed(request, reply))
            return
        first = await within(request, anext(reply.chunks, b""))
        await send_head(send, request, reply)
        started = True
        await send({"type": "http.response.body", "body": first, "more_body": True})
        async for chunk in reply.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    except asyncio.CancelledError:
        if not request.departure.take_back_cancel():
            raise
    except Exception as error:  # noqa: BLE001 (the one boundary of the broker: every failure becomes data)
        failure = to_failure(request, error)
        forget_frames(error)  # it may be stored for a retry of the request
        if started:  # the connection closes without the end of the reply, so that it is not taken for complete
            log.warning("%s broke off: %s", request.name, failure)
            return
        await send_answer(send, signed(request, refusal(failure)))
    finally:
        request.departure.forget()


def to_failure(request: Request, error: Exception) -> RolloutError:
    """Errors of a provider become engine failures; anything else is a bug and is logged as one."""
    if isinstance(error, RolloutError | GymError | OSError | TimeoutError):
        return engine_failure(error)
    log.error("%s: %s", request.name, error_text(error), exc_info=error)
    return RolloutError("sandbox", error_text(error), retryable=False)


async def within(request: Request, work: Awaitable[T]) -> T:
    if not request.has_deadline:
        return await work
    try:
        async with asyncio.timeout_at(request.deadline) as scope:
            return await work
    except TimeoutError:
        if scope.expired():
            late = f"{request.name} was not done when the deadline passed"
            raise RolloutError("timeout", late, server="sandbox") from None
        raise


def signed(request: Request, answer: Answer) -> Answer:
    return answer._replace(headers=(*answer.headers, (HEADER_EPOCH.encode(), request.broker.epoch.encode())))


async def send_head(send: Send, request: Request, reply: Stream) -> None:
    epoch = (HEADER_EPOCH.encode(), request.broker.epoch.encode())
    headers = [(b"content-type", reply.content_type), *reply.headers, epoch]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})


def refusal(error: RolloutError) -> Answer:
    """The contract's failure, with `errno` and `path` of a file error and `own_doing` of a loss."""
    error.server = error.server or "sandbox"
    fields = failure_fields(error)
    headers = [(HEADER_ERROR.encode(), error.kind.encode())]
    if isinstance(error, RetryLater):
        headers.append((b"retry-after", b"%d" % max(round(error.retry_after + 0.4), 1)))
    return Answer(orjson.dumps({"error": fields}), error.status, tuple(headers))


def failure_fields(error: RolloutError) -> dict[str, object]:
    return {**error.to_dict(), **{key: getattr(error, key) for key in MORE if hasattr(error, key)}}


def model_answer(model: BaseModel, status: int = 200) -> Answer:
    return Answer(model.model_dump_json().encode(), status)


def json_answer(value: object, status: int = 200) -> Answer:
    return Answer(orjson.dumps(value), status)

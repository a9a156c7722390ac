"""HTTP/1.1 as the servers of a stack speak it to one another: keep-alive, whole bodies, nothing sent twice.

`NotSent` promises that the peer saw no byte of the request; after any other error the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, NamedTuple, cast

import httptools

from gym.http.dial import Dial, DialGate, Endpoint, TcpDial, parse_url
from gym.http.direct_body import DirectBody, missing_length
from gym.http.keepalive import (
    ONE_WINDOW,
    UNACKNOWLEDGED_SECONDS,
    heard_within,
    keep_transport_alive,
    limit_unacknowledged,
)
from gym.http.open_files import OPEN_FILES, OpenFiles
from gym.http.peer_health import VANISHED_WORDS, Peer, PeerHealth, PeerVanished, is_vanished
from gym.http.tracing import TRACING
from gym.wire.pieces import Body, Pieces, body_size

CONNECT_SECONDS = 5.0
IDLE_SECONDS = 20.0  # well below the 75 s after which our servers close: a kept connection is never closed under us
MAX_BODY = 256 * 1024 * 1024
SPLIT_WRITE = 64 * 1024  # above this a body is written after its head instead of being copied behind it

LENGTHS = frozenset((b"content-length", b"transfer-encoding"))  # a reply without any ends with its connection

Headers = Iterable[tuple[bytes, bytes]]


class NotSent(ConnectionError):
    """No byte of the request reached the peer: it is safe to try elsewhere."""


class Reply(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]  # names in lower case
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key == name), None)


class HttpClient:
    """A pool of connections for one event loop. Close it when done."""

    def __init__(
        self,
        *,
        per_host: int | None = None,
        max_body: int = MAX_BODY,
        asks_health: bool = True,
        idle_seconds: float | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        dial: Dial | None = None,
        files: OpenFiles = OPEN_FILES,
    ) -> None:
        """`asks_health`: of who lets a reply wait for long. For peers that speak HTTP at an address of their own."""
        self._dial = dial or TcpDial()
        self._files = files
        self._idle_seconds = idle_seconds
        self._connect_seconds = connect_seconds
        self.health = PeerHealth(asks=asks_health)
        self._idle: dict[Peer, deque[Connection]] = {}
        self._open: set[Connection] = set()
        self._per_host = per_host
        self._greetings: dict[Peer, tuple[tuple[bytes, bytes], ...]] = {}
        self._gates: dict[Peer, asyncio.Semaphore] = {}
        self._dial_gates: dict[Peer, DialGate] = {}
        self._max_body = max_body

    def request(
        self, method: str, url: str, *, body: Body = b"", headers: Headers = (), timeout: float | None = None
    ) -> Coroutine[Any, Any, Reply]:
        """The whole reply; `timeout` covers waiting for a place, connecting, sending and reading. Not for HEAD.

        No coroutine itself: each one between a caller and its reply is a frame more to step through, for each call.
        """
        address = parse_url(url)
        if self._greetings and (greeting := self._greetings.get(address.peer)):
            headers = [*headers, *greeting]
        if TRACING.tracer is not None:
            headers = [*headers, *TRACING.tracer.outgoing()]
        head = _head(method, address, headers, body_size(body))
        if self._per_host is None:
            return self._exchange(address, head, body, timeout)
        return self._exchange_in_turn(address, head, body, timeout, self._per_host)

    async def _exchange_in_turn(
        self, address: Endpoint, head: bytes, body: Body, timeout: float | None, per_host: int
    ) -> Reply:
        gate = self._gates.setdefault(address.peer, asyncio.Semaphore(per_host))
        waited = await _acquire(gate, address, timeout)
        try:
            return await self._exchange(address, head, body, None if timeout is None else timeout - waited)
        finally:
            gate.release()

    def greet(self, url: str, headers: Headers) -> None:
        """Sent with every request to that peer, and to no other."""
        self._greetings[parse_url(url).peer] = tuple(headers)

    def expect_health(self, url: str) -> None:
        """Servers of this SDK answer /healthz while they work: one that is silent for long has gone."""
        self.health.expect_answers(parse_url(url).peer)

    def is_lost(self, url: str) -> bool:
        """It vanished or hung, and has not answered since."""
        return bool(self.health.lost) and parse_url(url).peer in self.health.lost

    async def aclose(self) -> None:
        self._files.leave(self)
        self.health.close()
        for connection in tuple(self._open):
            connection.abort()
        self._idle.clear()

    async def _exchange(self, address: Endpoint, head: bytes, body: Body, timeout: float | None) -> Reply:
        loop = asyncio.get_running_loop()
        now = loop.time()
        ends = None if timeout is None else now + timeout
        if self.health.lost and address.peer in self.health.lost:
            raise NotSent(f"{address.host}:{address.port} vanished or hangs, and has not answered since")
        connection = None if self._files.is_awaited else self._take(address, now)
        if connection is None:
            connection = await self._open_or_wait(address, timeout)
            now = loop.time()
        waiter = connection.send(head, body, now, loop)
        timer = None if ends is None else loop.call_at(ends, _expire, waiter, address)
        try:
            reply = await waiter
        except BaseException:
            connection.abort()
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if connection.direct is not None:
            reply = reply._replace(body=connection.direct.take())
            connection.direct = None
        self.health.replied[connection.peer] = connection.idle_since = loop.time()
        if connection.reusable:
            self._idle.setdefault(address.peer, deque()).append(connection)
            if self._files.is_awaited:
                self._files.wake()
        else:
            connection.abort()
        return reply

    def drop_idle(self) -> bool:
        """Closes one connection that no call uses, the one that was used least lately; False where there is none."""
        for idle in self._idle.values():
            while idle:
                connection = idle.popleft()
                if not connection.closed:
                    connection.abort()
                    return True
        return False

    async def _open_or_wait(self, address: Endpoint, timeout: float | None) -> Connection:
        """A new connection; while this process may open no other one, the first that comes back."""
        now = asyncio.get_running_loop().time
        ends = None if timeout is None else now() + timeout
        if self._files.is_awaited or not self._files.take():
            try:
                async with asyncio.timeout_at(ends):
                    if (connection := await self._wait_for_place(address)) is not None:
                        return connection
            except TimeoutError:
                where = self._dial.name(address)
                raise NotSent(f"no connection to {where}: no other file could be opened in time") from None
        try:
            return await self._connect(address, math.inf if ends is None else ends)
        except BaseException:
            self._files.give()
            raise

    async def _wait_for_place(self, address: Endpoint) -> Connection | None:
        """A connection that is there again, or None: a new one may be opened."""
        again = False
        while True:
            await self._files.wait(again=again)
            again = True
            connection = self._take(address, asyncio.get_running_loop().time())
            if connection is not None or self._files.take():
                return connection

    def _take(self, address: Endpoint, now: float) -> Connection | None:
        idle = self._idle.get(address.peer)
        longest = IDLE_SECONDS if self._idle_seconds is None else self._idle_seconds
        while idle:
            connection = idle.pop()  # the one used last: the others may age and go
            if not connection.closed and now - connection.idle_since < longest:
                return connection
            connection.abort()
        return None

    async def _connect(self, address: Endpoint, ends: float) -> Connection:
        now = asyncio.get_running_loop().time
        limit = min(self._connect_seconds, max(ends - now(), 0.0))
        gate = self._dial_gates.get(address.peer) or self._dial_gates.setdefault(address.peer, DialGate())
        transport = None
        try:
            await gate.enter(limit, ends)
            try:
                async with asyncio.timeout_at(min(now() + limit, ends)):
                    transport, connection = await self._dial.open(
                        lambda: Connection(self._max_body, address.peer), address
                    )
            finally:
                gate.leave(opened=transport is not None)
        except TimeoutError:
            raise NotSent(f"no connection to {self._dial.name(address)} within {limit:.3g} s") from None
        except OSError as error:
            raise NotSent(f"no connection to {self._dial.name(address)}: {error.strerror or error}") from error
        keep_transport_alive(transport, unacknowledged=UNACKNOWLEDGED_SECONDS)
        if connection.closed:
            self._files.give()
        else:
            self._open.add(connection)
            self._files.join(self)
            connection.on_closed = self._forget
            self.health.watch(connection)
        return connection

    def _forget(self, connection: Connection, error: Exception | None) -> None:
        self._files.give()
        self._open.discard(connection)
        self.health.leave(connection, vanished=is_vanished(error))


class Connection(asyncio.Protocol):
    """One connection and the reply being read from it."""

    def __init__(self, max_body: int, peer: Peer) -> None:
        self.peer = peer
        self.asked = 0.0  # when the request was sent
        self._impatient = True
        self._parser = httptools.HttpResponseParser(self)
        self._max_body = max_body
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Reply] | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._chunks: list[bytes] = []
        self._size = 0
        self._sized = False  # the head says where the body ends
        self._until_eof = False
        self.direct: DirectBody | None = None  # the reply's body, where it goes past the parser
        self.closed = False
        self.reusable = False
        self.idle_since = 0.0
        self.on_closed: Callable[[Connection, Exception | None], None] = _nothing

    @property
    def waits(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without deriving from it

    def send(self, head: bytes, body: Body, now: float, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Reply]:
        assert self._transport is not None
        self.reusable = False
        self.asked = now
        if body_size(body) > ONE_WINDOW and self._impatient:
            self._impatient = False  # a busy server may leave some of it unread for a while
            limit_unacknowledged(self._transport.get_extra_info("socket"), 0)
        self._waiter = loop.create_future()
        if self.closed or self._transport.is_closing():
            self._waiter.set_exception(NotSent("the connection was closed before the request"))
        elif isinstance(body, Pieces):
            self._transport.writelines((head, *body))
        elif len(body) > SPLIT_WRITE:
            self._transport.write(head)
            self._transport.write(body)
        else:
            self._transport.write(head + body)
        return self._waiter

    def heard_within(self, seconds: float) -> bool:
        assert self._transport is not None
        return heard_within(self._transport.get_extra_info("socket"), seconds)

    def give_up(self, error: Exception) -> None:
        self._fail(error)
        self.abort()

    def abort(self) -> None:
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    # What the event loop tells.

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            self.abort()  # bytes without a request: they must not be taken for the next reply
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(ConnectionError(f"not an HTTP reply: {error}"))
            self.abort()
            return
        if self._size and self.waits and not self.closed:
            self._read_directly(missing_length(self._headers, self._size))

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._until_eof and exc is None:
            self.on_message_complete()
        self._fail(_explain(exc))
        self.on_closed(self, exc)

    # What the parser tells.

    def on_message_begin(self) -> None:
        if self._waiter is None or self._waiter.done():
            self.reusable = False  # a second reply without a request: it must not reach any caller
            self.abort()
        self._headers, self._chunks, self._size, self._sized = [], [], 0, False

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        self._headers.append((name, value))
        if name in LENGTHS:
            self._sized = True

    def on_headers_complete(self) -> None:
        self._until_eof = not self._sized and self._parser.get_status_code() not in (204, 304)

    def on_body(self, body: bytes) -> None:
        self._chunks.append(body)
        self._size += len(body)
        if self._size > self._max_body:
            self._fail(ConnectionError(f"the reply is larger than {self._max_body} bytes"))
            self.abort()

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        waiter = self._waiter
        if status < 200 or waiter is None or waiter.done():
            return
        self.reusable = not self.closed and not self._until_eof and self._parser.should_keep_alive()
        self._until_eof = False
        chunks, self._chunks, self._size = self._chunks, [], 0
        self._waiter = None  # an idle connection keeps no reply
        waiter.set_result(Reply(status, self._headers, chunks[0] if len(chunks) == 1 else b"".join(chunks)))

    def _read_directly(self, length: int) -> None:
        if not 0 < length <= self._max_body:
            return
        assert self._transport is not None
        begun, self._chunks = b"".join(self._chunks), []
        self.direct = DirectBody(self._transport, self, begun, length, self._end_direct)

    def _end_direct(self) -> None:
        parsed, self._parser = self._parser, httptools.HttpResponseParser(self)
        waiter, self._waiter, self._size = self._waiter, None, 0
        if waiter is not None and not waiter.done():
            self.reusable = not self.closed and parsed.should_keep_alive()
            waiter.set_result(Reply(parsed.get_status_code(), self._headers, b""))

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)


def _head(method: str, address: Endpoint, headers: Headers, length: int) -> bytes:
    lines = [b"%b %b HTTP/1.1\r\nhost: %b" % (method.encode(), address.target, address.netloc)]
    if length or method != "GET":
        lines.append(b"content-type: application/json\r\ncontent-length: %d" % length)
    for name, value in headers:
        line = b"%b: %b" % (name, value)
        if b"\r" in line or b"\n" in line:
            raise ValueError(f"line break in header {name!r}")
        lines.append(line)
    lines.append(b"\r\n")
    return b"\r\n".join(lines)


async def _acquire(gate: asyncio.Semaphore, address: Endpoint, timeout: float | None) -> float:
    """How long it took. Nothing is sent by a request that waited to its end."""
    begun = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(timeout):
            await gate.acquire()
    except TimeoutError:
        raise NotSent(f"no place among the connections to {address.host}:{address.port} in time") from None
    return asyncio.get_running_loop().time() - begun


def _expire(waiter: asyncio.Future[Reply], address: Endpoint) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError(f"no answer from {address.host}:{address.port} in time"))


def _explain(error: Exception | None) -> ConnectionError:
    if is_vanished(error):
        return PeerVanished(VANISHED_WORDS.format(error))
    return ConnectionError(f"the peer closed the connection before it answered{f': {error}' if error else ''}")


def _nothing(*_: object) -> None:
    return None

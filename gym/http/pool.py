"""HTTP/1.1 as the servers of a stack speak it to one another: keep-alive, whole bodies, nothing sent twice.

`NotSent` promises that the peer saw no byte of the request; after any other error the outcome is unknown.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import deque
from collections.abc import Coroutine, Iterable
from typing import Any

from gym.http.connection import Connection, NotSent, Reply
from gym.http.deadlines import Deadlines
from gym.http.dial import LENGTH, Dial, DialLimiter, Endpoint, TcpDial, parse_url
from gym.http.keepalive import UNACKNOWLEDGED_SECONDS, keep_transport_alive
from gym.http.open_files import OPEN_FILES, OpenFiles
from gym.http.peer_health import Peer, PeerHealth, is_vanished
from gym.http.tracing import TRACING
from gym.wire.pieces import Body, body_size

CONNECT_SECONDS = 5.0
IDLE_SECONDS = 20.0  # well below the 75 s after which our servers close: a kept connection is never closed under us
MAX_BODY = 256 * 1024 * 1024

Headers = Iterable[tuple[bytes, bytes]]


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
        self._deadlines = Deadlines(self._open)
        self._per_host = per_host
        self._greetings: dict[Peer, tuple[tuple[bytes, bytes], ...]] = {}
        self._host_slots: dict[Peer, asyncio.Semaphore] = {}
        self._dial_limiters: dict[Peer, DialLimiter] = {}
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
        slots = self._host_slots.setdefault(address.peer, asyncio.Semaphore(per_host))
        waited = await _acquire(slots, address, timeout)
        try:
            return await self._exchange(address, head, body, None if timeout is None else timeout - waited)
        finally:
            slots.release()

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
        self._deadlines.close()
        for connection in tuple(self._open):
            connection.abort()
        self._idle.clear()

    async def _exchange(self, address: Endpoint, head: bytes, body: Body, timeout: float | None) -> Reply:
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = math.inf if timeout is None else now + timeout
        if self.health.lost and address.peer in self.health.lost:
            raise NotSent(f"{address.host}:{address.port} vanished or hangs, and has not answered since")
        connection = None if self._files.is_awaited else self._take(address, now)
        if connection is None:
            connection = await self._open_or_wait(address, timeout)
            now = loop.time()
        waiter = connection.send(head, body, now, due, loop)
        if due < self._deadlines.next:
            self._deadlines.ring_at(due)
        try:
            reply = await waiter
        except BaseException:
            connection.abort()
            raise
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
        deadline = None if timeout is None else now() + timeout
        if self._files.is_awaited or not self._files.take():
            try:
                async with asyncio.timeout_at(deadline):
                    if (connection := await self._wait_for_place(address)) is not None:
                        return connection
            except TimeoutError:
                where = self._dial.name(address)
                raise NotSent(f"no connection to {where}: no other file could be opened in time") from None
        try:
            return await self._connect(address, math.inf if deadline is None else deadline)
        except BaseException:
            self._files.give()
            raise

    async def _wait_for_place(self, address: Endpoint) -> Connection | None:
        """A connection that came back, or None: a new one may be opened."""
        retry = False
        while True:
            await self._files.wait(retry=retry)
            retry = True
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

    async def _connect(self, address: Endpoint, deadline: float) -> Connection:
        now = asyncio.get_running_loop().time
        limit = min(self._connect_seconds, max(deadline - now(), 0.0))
        limiter = self._dial_limiters.get(address.peer) or self._dial_limiters.setdefault(address.peer, DialLimiter())
        transport = None
        try:
            await limiter.enter(limit, deadline)
            try:
                async with asyncio.timeout_at(min(now() + limit, deadline)):
                    transport, connection = await self._dial.open(
                        lambda: Connection(self._max_body, address.peer), address
                    )
            finally:
                limiter.leave(opened=transport is not None)
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


def _head(method: str, address: Endpoint, headers: Headers, length: int) -> bytes:
    if method == "POST":
        begin = b"%b%d" % (address.posting, length)
    else:
        begin = b"%b %b HTTP/1.1\r\nhost: %b" % (method.encode(), address.target, address.netloc)
        if length or method != "GET":
            begin += b"%b%d" % (LENGTH, length)
    lines = [b"\r\n%b: %b" % header for header in headers]
    text = b"".join(lines)
    if text.count(b"\r") + text.count(b"\n") != 2 * len(lines):
        raise ValueError(f"line break in header {_broken(headers)!r}")
    return b"%b%b\r\n\r\n" % (begin, text)


def _broken(headers: Headers) -> bytes:
    return next((name for name, value in headers if re.search(rb"[\r\n]", name + value)), b"")


async def _acquire(slots: asyncio.Semaphore, address: Endpoint, timeout: float | None) -> float:
    """How long it took. Nothing is sent by a request that waited to its end."""
    begun = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(timeout):
            await slots.acquire()
    except TimeoutError:
        raise NotSent(f"no place among the connections to {address.host}:{address.port} in time") from None
    return asyncio.get_running_loop().time() - begun


__all__ = ["CONNECT_SECONDS", "IDLE_SECONDS", "MAX_BODY", "Headers", "HttpClient", "NotSent", "Reply"]

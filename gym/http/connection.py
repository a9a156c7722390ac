"""One connection of HTTP/1.1 and the reply being read from it: the part of `gym.http.pool` that meets the wire."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import NamedTuple, cast

import httptools

from gym.http.direct_body import DirectBody, missing_length
from gym.http.keepalive import ONE_WINDOW, heard_within, limit_unacknowledged
from gym.http.peer_health import VANISHED_WORDS, Peer, PeerVanished, is_vanished
from gym.wire.pieces import Body, Pieces, body_size

SPLIT_WRITE = 64 * 1024  # above this a body is written after its head instead of being copied behind it
MAX_HEAD = 1 << 20  # bytes of a message that are not its body: its head, and what stands around its chunks
LENGTHS = frozenset((b"content-length", b"transfer-encoding"))  # a reply without any ends with its connection


class NotSent(ConnectionError):
    """No byte of the request reached the peer: it is safe to try elsewhere."""


class Reply(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]  # names in lower case
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        for key, value in self.headers:
            if key == name:
                return value
        return None


class Connection(asyncio.Protocol):
    """One connection and the reply being read from it."""

    def __init__(self, max_body: int, peer: Peer) -> None:
        self.peer = peer
        self.asked = 0.0  # when the request was sent
        self.due = math.inf  # when its reply is
        self._impatient = True
        self._parser = httptools.HttpResponseParser(self)
        self._max_body = max_body
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Reply] | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._chunks: list[bytes] = []
        self._size = 0
        self._received = 0  # bytes of the reply, while it is not whole
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

    def send(
        self, head: bytes, body: Body, now: float, due: float, loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[Reply]:
        assert self._transport is not None
        self.reusable = False
        self.asked = now
        self.due = due
        self._received = 0
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

    def expire(self) -> None:
        _, host, port = self.peer
        self._fail(TimeoutError(f"no answer from {host}:{port} in time"))

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
        if self._waiter is not None:
            self._await_rest(len(data))

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._until_eof and exc is None:
            self.on_message_complete()
        self._fail(_explain(exc))
        self._headers, self._chunks = [], []  # a closed connection is in a reference cycle, and freed late
        if self.direct is not None and not self.direct.whole:
            self.direct = None
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
            self._refuse(f"the reply is larger than {self._max_body} bytes")

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

    def _await_rest(self, received: int) -> None:
        if self.closed or not self.waits:
            return
        self._received += received
        if self._received > MAX_HEAD + 8 * self._size:  # a chunk of one byte takes five around it
            self._refuse(f"the head of the reply is larger than {MAX_HEAD} bytes")
        elif self._size:
            self._read_directly(missing_length(self._headers, self._size))

    def _refuse(self, what: str) -> None:
        self._fail(ConnectionError(what))
        self.abort()

    def _read_directly(self, length: int) -> None:
        if length > self._max_body:
            self._refuse(f"the reply is larger than {self._max_body} bytes")
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


def _explain(error: Exception | None) -> ConnectionError:
    if is_vanished(error):
        return PeerVanished(VANISHED_WORDS.format(error))
    return ConnectionError(f"the peer closed the connection before it answered{f': {error}' if error else ''}")


def _nothing(*_: object) -> None:
    return None

"""uvicorn's HTTP/1.1, with a way past ASGI for whole bodies: a reply is one write, not one for its head and one for its
body, and a long request wakes its server once."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final, NamedTuple

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from gym.http.connection import MAX_HEAD, SPLIT_WRITE
from gym.http.direct_body import DirectBody, missing_length
from gym.http.open_files import OPEN_FILES
from gym.server.paced_starts import PacedStarts
from gym.server.request_body import MAX_BODY, Receive, caller_gone, read_body
from gym.wire.pieces import Body, Pieces, body_size

EXCHANGE: Final = "gym.exchange"  # in a scope: the request's own connection
HEALTH: Final = "/healthz"  # never waits
STARTS: Final = "gym_starts"
CLOSE: Final = (b"connection", b"close")
MAX_FIELDS: Final = 10_000  # headers and trailers of a request


class OneWriteProtocol(HttpToolsProtocol):
    _starts: PacedStarts
    _head_size = 0  # of the request after `_head_after`, while its head is not whole
    _head_after: RequestResponseCycle | None = None

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is before:
            self._limit_head(len(data))

    def _limit_head(self, received: int) -> None:
        """uvicorn has no limit: one connection could take all of the memory."""
        if self.cycle is None or not self.cycle.more_body:
            self._head_size = received + (self._head_size if self._head_after is self.cycle else 0)
            self._head_after = self.cycle
            if self._head_size > MAX_HEAD and not self.transport.is_closing():
                self.send_400_response(f"The head of the request is larger than {MAX_HEAD} bytes.")
        if len(self.headers or ()) > MAX_FIELDS:
            self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._starts = _starts_of(self.server_state, self.loop)
        OPEN_FILES.make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        OPEN_FILES.wake()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        cycle.scope[EXCHANGE] = Exchange(cycle, self)  # type: ignore[typeddict-unknown-key]
        start = super()._start_asgi_task
        if cycle.scope["path"] == HEALTH or self._starts.may_begin():
            start(cycle, app)
        else:
            self._starts.begin_later(partial(start, cycle, app))

    def end_body(self, cycle: RequestResponseCycle) -> None:
        """Of a request whose parser has not seen all of it: the next one gets another."""
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
        cycle.more_body = False
        cycle.message_event.set()


def _starts_of(state: Any, loop: asyncio.AbstractEventLoop) -> PacedStarts:
    """One for all connections of a server: its state is what uvicorn gives to each of them."""
    found: PacedStarts | None = getattr(state, STARTS, None)
    if found is None:
        found = PacedStarts(loop)
        setattr(state, STARTS, found)
    return found


class Exchange(NamedTuple):
    """One request and its reply. It takes the place of `receive` and `send` where both bodies are whole."""

    cycle: RequestResponseCycle
    protocol: OneWriteProtocol

    async def read_body(self, receive: Receive, max_body: int = MAX_BODY) -> bytes:
        cycle = self.cycle
        if cycle.disconnected or cycle.response_complete or cycle.waiting_for_100_continue:
            return await read_body(receive, max_body)
        if cycle.more_body:
            length = missing_length(cycle.scope["headers"], len(cycle.body))
            return await (self._read_directly(length) if 0 < length <= max_body else read_body(receive, max_body))
        body = bytes(cycle.body)
        cycle.body = bytearray()
        cycle.message_event.clear()
        flow: FlowControl = cycle.flow
        if flow.read_paused:
            flow.resume_reading()
        return body

    async def _read_directly(self, length: int) -> bytes:
        """uvicorn copies each piece three times more, and wakes the server for it."""
        cycle, protocol = self.cycle, self.protocol
        cycle.message_event.clear()
        cycle.flow.resume_reading()
        on_whole = partial(protocol.end_body, cycle)
        direct = DirectBody(cycle.transport, protocol, bytes(cycle.body), length, on_whole)
        cycle.body = bytearray()
        await cycle.message_event.wait()
        cycle.message_event.clear()
        if not direct.whole:
            raise caller_gone()
        return direct.take()

    def reply(self, status: int, headers: list[tuple[bytes, bytes]], body: Body) -> bool:
        """False where `send` has to do it: the connection is behind, or a header is none."""
        cycle = self.cycle
        if cycle.flow.write_paused or cycle.response_started:
            return False
        if cycle.disconnected:
            return True
        pairs = [*cycle.default_headers, *headers]
        if not cycle.keep_alive and CLOSE not in pairs:
            pairs.append(CLOSE)
        pairs.append((b"content-length", b"%d" % body_size(body)))
        head = STATUS_LINE[status] + b"".join([b"%b: %b\r\n" % pair for pair in pairs]) + b"\r\n"
        lines = len(pairs) + 2
        if head.count(b"\n") != lines or head.count(b"\r") != lines or b"\0" in head:
            return False  # no value may begin a header of its own
        cycle.keep_alive = cycle.keep_alive and CLOSE not in pairs
        self._write(head, b"" if cycle.scope["method"] == "HEAD" else body)
        return True

    def _write(self, head: bytes, body: Body) -> None:
        cycle = self.cycle
        cycle.response_started = True
        if isinstance(body, Pieces):
            cycle.transport.writelines((head, *body))
        elif len(body) > SPLIT_WRITE:
            cycle.transport.write(head)
            cycle.transport.write(body)
        else:
            cycle.transport.write(head + body)
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()

"""uvicorn's HTTP/1.1, with a way past ASGI for whole bodies: a reply is one write, not one for its head and one for its
body, and a long request wakes its server once."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from gym.server.request_body import MAX_BODY, caller_gone, too_large

EXCHANGE: Final = "gym.exchange"  # in a scope: the request's own connection
CLOSE: Final = (b"connection", b"close")
GO_ON: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
SPLIT_WRITE: Final = 64 * 1024  # above this a body is written after its head instead of being copied behind it


class OneWriteProtocol(HttpToolsProtocol):
    gathered: GatheredBody | None = None  # what is being read as a whole

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        cycle.scope[EXCHANGE] = Exchange(cycle, self)  # type: ignore[typeddict-unknown-key]
        super()._start_asgi_task(cycle, app)

    def on_body(self, body: bytes) -> None:
        gathered = self.gathered
        if gathered is None or gathered.cycle is not self.cycle:
            super().on_body(body)
        else:
            gathered.add(body)


class GatheredBody:
    """A request's body in the pieces that came. uvicorn copies each of them twice more, and wakes the server for it."""

    def __init__(self, cycle: RequestResponseCycle, max_body: int) -> None:
        self.cycle = cycle
        self.pieces = [bytes(cycle.body)]
        self.room = max_body - len(cycle.body)
        cycle.body = bytearray()

    def add(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self.room -= len(piece)
        if self.room < 0:
            self.cycle.flow.pause_reading()
            self.cycle.message_event.set()


class Exchange(NamedTuple):
    """One request and its reply. It takes the place of `receive` and `send` where both bodies are whole."""

    cycle: RequestResponseCycle
    protocol: OneWriteProtocol

    async def read_body(self, max_body: int = MAX_BODY) -> bytes:
        cycle = self.cycle
        if cycle.more_body:
            return await self._gather(max_body)
        if cycle.disconnected or cycle.response_complete:
            raise caller_gone()
        body = bytes(cycle.body)
        cycle.body = bytearray()
        cycle.message_event.clear()
        flow: FlowControl = cycle.flow
        if flow.read_paused:
            flow.resume_reading()
        return body

    async def _gather(self, max_body: int) -> bytes:
        cycle, flow = self.cycle, self.cycle.flow
        if cycle.waiting_for_100_continue and not cycle.transport.is_closing():
            cycle.transport.write(GO_ON)
            cycle.waiting_for_100_continue = False
        gathered = self.protocol.gathered = GatheredBody(cycle, max_body)
        try:
            while cycle.more_body and gathered.room >= 0 and not cycle.disconnected:
                cycle.message_event.clear()
                flow.resume_reading()
                await cycle.message_event.wait()
        finally:
            self.protocol.gathered = None
        cycle.message_event.clear()
        if gathered.room < 0:
            raise too_large(max_body)
        if cycle.disconnected:
            raise caller_gone()
        return b"".join(gathered.pieces)

    def reply(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """False where `send` has to do it: the connection is behind, or a header is none."""
        cycle = self.cycle
        if cycle.flow.write_paused or cycle.response_started:
            return False
        if cycle.disconnected:
            return True
        pairs = [*cycle.default_headers, *headers]
        if not cycle.keep_alive and CLOSE not in pairs:
            pairs.append(CLOSE)
        pairs.append((b"content-length", b"%d" % len(body)))
        head = STATUS_LINE[status] + b"".join([b"%b: %b\r\n" % pair for pair in pairs]) + b"\r\n"
        lines = len(pairs) + 2
        if head.count(b"\n") != lines or head.count(b"\r") != lines or b"\0" in head:
            return False  # no value may begin a header of its own
        cycle.keep_alive = cycle.keep_alive and CLOSE not in pairs
        self._write(head, b"" if cycle.scope["method"] == "HEAD" else body)
        return True

    def _write(self, head: bytes, body: bytes) -> None:
        cycle = self.cycle
        cycle.response_started = True
        if len(body) > SPLIT_WRITE:
            cycle.transport.write(head)
            cycle.transport.write(body)
        else:
            cycle.transport.write(head + body)
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()

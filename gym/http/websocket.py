"""WebSocket (RFC 6455) as far as a terminal needs it: the frames, a protocol for uvicorn, a client. No extensions."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from gym.http.streams import request_head

GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MAX_MESSAGE: Final = 1 << 20  # of one message
HIGH_WATER: Final = 256 << 10
EACH: Final = 512  # what a message that waits takes, beside its bytes


class Message(NamedTuple):
    kind: int
    data: bytes


class BadFrame(ValueError):
    """The peer does not speak the protocol."""


def accept_key(key: bytes) -> bytes:
    return base64.b64encode(hashlib.sha1(key + GUID).digest())


def handshake(target: bytes, host: bytes, authorization: bytes, protocols: bytes = b"") -> tuple[bytes, bytes]:
    """A client's request, and the `sec-websocket-accept` that answers it. `protocols`: the best of them first."""
    key = base64.b64encode(os.urandom(16))
    headers = (
        (b"host", host),
        (b"authorization", authorization),
        (b"upgrade", b"websocket"),
        (b"connection", b"Upgrade"),
        (b"sec-websocket-version", b"13"),
        (b"sec-websocket-key", key),
        *(((b"sec-websocket-protocol", protocols),) if protocols else ()),
    )
    return request_head("GET", target, headers), accept_key(key)


def encode(kind: int, data: bytes, *, masked: bool = False) -> bytes:
    """One message in one frame. A client masks, a server does not."""
    bit = 0x80 if masked else 0
    size = len(data)
    if size < 126:
        head = struct.pack("!BB", 0x80 | kind, bit | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", 0x80 | kind, bit | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | kind, bit | 127, size)
    if not masked:
        return head + data
    mask = os.urandom(4)
    return head + mask + apply_mask(data, mask)


def apply_mask(data: bytes, mask: bytes) -> bytes:
    if not data:
        return b""
    repeated = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(len(data), "big")


class Decoder:
    """Bytes in, whole messages out."""

    def __init__(self, *, masked: bool) -> None:
        self._masked = masked
        self._held = bytearray()
        self._kind = CONTINUED
        self._parts = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        self._held += data
        while (frame := self._next()) is not None:
            final, kind, body = frame
            if kind >= CLOSE:
                yield Message(kind, body)
                continue
            if (kind == CONTINUED) == (self._kind == CONTINUED):
                raise BadFrame("a frame out of turn")
            self._kind = self._kind or kind
            self._parts += body
            if len(self._parts) > MAX_MESSAGE:
                raise BadFrame("a message without end")
            if final:
                yield Message(self._kind, bytes(self._parts))
                self._kind = CONTINUED
                self._parts.clear()

    def _next(self) -> tuple[bool, int, bytes] | None:
        held = self._held
        if len(held) < 2:
            return None
        first, second = held[0], held[1]
        if first & 0x70 or bool(second & 0x80) != self._masked:
            raise BadFrame("an extension that was not agreed on, or a frame without its mask")
        size, at = second & 0x7F, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(held) < at + width:
                return None
            size, at = int.from_bytes(held[at : at + width], "big"), at + width
        if size > MAX_MESSAGE or (first & 0x0F >= CLOSE and (size > 125 or not first & 0x80)):
            raise BadFrame("a frame that is too large")
        start = at + (4 if self._masked else 0)
        if len(held) < start + size:
            return None
        body = bytes(held[start : start + size])
        if self._masked:
            body = apply_mask(body, bytes(held[at:start]))
        del held[: start + size]
        return bool(first & 0x80), first & 0x0F, body


def weight(event: dict[str, Any]) -> int:
    return EACH + len(event.get("bytes") or event.get("text") or "") if event["type"] == "websocket.receive" else 0


class WebSocketProtocol(asyncio.Protocol):
    """What uvicorn hands an upgraded connection to: an ASGI `websocket` scope over it."""

    def __init__(self, config: Any, server_state: Any, app_state: Any) -> None:
        self._app = config.loaded_app
        self._state = server_state
        self._app_state = app_state
        self._decoder = Decoder(masked=True)
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._writable = asyncio.Event()
        self._writable.set()
        self._waiting = 0
        self._accepted = self._closed = self._begun = False
        self._key = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._state.connections.add(self)

    def data_received(self, data: bytes) -> None:
        if not self._begun:
            self._begin(data)
            return
        try:
            for message in self._decoder.feed(data):
                self._take(message)
        except BadFrame:
            self._finish(1002)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        self._state.connections.discard(self)
        self._writable.set()
        self._events.put_nowait({"type": "websocket.disconnect", "code": 1006})

    def eof_received(self) -> None:
        return None

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def shutdown(self) -> None:
        """The server stops."""
        if self._accepted:
            self._finish(1012)
        else:
            self._transport.close()

    def _begin(self, request: bytes) -> None:
        self._begun = True
        head, _, _ = request.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        headers = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
        self._key = dict(headers).get(b"sec-websocket-key", b"")
        path, _, query = first.split(b" ")[1].partition(b"?")
        scope = {"type": "websocket", "path": path.decode("latin-1"), "query_string": query, "headers": headers}
        self._events.put_nowait({"type": "websocket.connect"})
        task = asyncio.get_running_loop().create_task(self._run(scope))
        self._state.tasks.add(task)
        task.add_done_callback(self._state.tasks.discard)

    async def _run(self, scope: dict[str, Any]) -> None:
        try:
            await self._app(scope, self._receive, self._send)
        finally:
            self._finish(1000) if self._accepted else self._refuse(500, b"")

    async def _receive(self) -> dict[str, Any]:
        event = await self._events.get()
        if self._waiting:
            self._waiting -= weight(event)
            if self._waiting < HIGH_WATER and not self._closed:
                self._transport.resume_reading()
        return event

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "websocket.accept":
            self._accepted = True
            answer = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            self._transport.write(answer + b"sec-websocket-accept: " + accept_key(self._key) + b"\r\n\r\n")
        elif message["type"] == "websocket.send":
            if not self._closed:
                text = message.get("text")
                kind, data = (BINARY, message["bytes"]) if text is None else (TEXT, text.encode())
                self._transport.write(encode(kind, data))
                await self._writable.wait()
        elif message["type"] == "websocket.close" and self._accepted:
            self._finish(message.get("code", 1000))
        elif message["type"] == "websocket.close":
            self._refuse(message.get("status", 403), message.get("body", b""))

    def _take(self, message: Message) -> None:
        if message.kind == PING and self._writable.is_set():  # who does not read is sent nothing
            self._transport.write(encode(PONG, message.data))
        elif message.kind == CLOSE:
            self._finish(1000)
        elif message.kind == TEXT:
            self._hear("text", message.data.decode("utf-8", "replace"))
        elif message.kind == BINARY:
            self._hear("bytes", message.data)

    def _hear(self, kind: str, data: str | bytes) -> None:
        event = {"type": "websocket.receive", kind: data}
        self._waiting += weight(event)
        self._events.put_nowait(event)
        if self._waiting > HIGH_WATER:
            self._transport.pause_reading()

    def _finish(self, code: int) -> None:
        if not self._closed:
            self._closed = True
            self._transport.write(encode(CLOSE, struct.pack("!H", code)))
            self._transport.close()

    def _refuse(self, status: int, body: bytes) -> None:
        if not self._closed:
            self._closed = True
            head = b"HTTP/1.1 %d Refused\r\ncontent-type: application/json\r\nconnection: close\r\n" % status
            self._transport.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            self._transport.close()

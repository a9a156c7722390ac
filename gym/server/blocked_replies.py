"""The replies to callers in the place of an event loop that is blocked: a failure that names the line."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from gym.labels import HEADER_ERROR
from gym.wire.failures import RolloutError

AT_ONCE = 64  # callers answered at one look
RECEIVE_TIMEOUT_SECONDS = 0.2  # for a caller that is still sending
PIECE = 1 << 16


def refuse_callers(listener: socket.socket, failure: RolloutError) -> None:
    """Answers connections that were not accepted yet, health checks among them."""
    if listener.fileno() < 0:  # closed: the server drains
        return
    with socket.socket(fileno=os.dup(listener.fileno())) as shared:
        for _ in range(AT_ONCE):
            try:
                connection, _ = shared.accept()
            except OSError:
                return
            with connection:
                _answer(connection, failure)


def answer_waiting(connections: Iterable[Any], blocked: object, own: RolloutError, others: RolloutError) -> None:
    """`own` is for the request whose list of headers is `blocked`, `others` for all that wait behind it.

    `connections` are uvicorn's. A request whose reply has begun gets no second one.
    """
    for protocol in connections:
        if not hasattr(protocol, "cycle") or protocol.transport.get_write_buffer_size():
            continue  # not HTTP, or a reply is still on its way
        cycle: Any = protocol.cycle
        in_flight = cycle is not None and not cycle.response_complete
        with suppress(OSError), _socket_of(protocol.transport) as connection:
            if in_flight and not cycle.response_started:
                _answer(connection, own if cycle.scope["headers"] is blocked else others)
            elif not in_flight and _has_request(connection):
                _answer(connection, others)


def reply_of(failure: RolloutError) -> bytes:
    body = failure.to_body()
    head = f"HTTP/1.1 {failure.status} Failed\r\ncontent-type: application/json\r\nconnection: close\r\n"
    return f"{head}{HEADER_ERROR}: {failure.kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def failure_of_blocked(server: str, message: str) -> RolloutError:
    """Of the request that blocked. Not retried: the same answer would block again, and cost everyone the same."""
    return RolloutError("timeout", message, server=server, retryable=False)


def failure_of_others(server: str, message: str) -> RolloutError:
    """Of those behind it. A model never gets to read it as a tool's output: it did nothing to cause it."""
    return RolloutError("timeout", message, server=server, retryable=True, status=503)


def _answer(connection: socket.socket, failure: RolloutError) -> None:
    """What the caller still sends is read: a socket closed with unread bytes would take the reply back."""
    deadline = time.monotonic() + RECEIVE_TIMEOUT_SECONDS
    with suppress(OSError):
        connection.settimeout(RECEIVE_TIMEOUT_SECONDS)
        connection.sendall(reply_of(failure))
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(PIECE) and time.monotonic() < deadline:
            pass


def _socket_of(transport: Any) -> socket.socket:
    return socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))


def _has_request(connection: socket.socket) -> bool:
    try:
        return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except OSError:
        return False

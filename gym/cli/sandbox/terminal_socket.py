"""The client's half of a WebSocket's handshake; the frames behind it are the broker's own (RFC 6455)."""

from __future__ import annotations

import socket

from gym.errors import InfraError
from gym.http.websocket import handshake
from gym.wire.failures import error_from_reply


def upgrade(line: socket.socket, path: str, token: str) -> bytes:
    """What came right behind the broker's answer. A refusal is shown in its words."""
    request, accept = handshake(path.encode(), b"localhost", f"Bearer {token}".encode())
    line.sendall(request)
    head, rest = _read_head(line)
    status = int(head.split(b" ", 2)[1])
    if status != 101:
        while data := line.recv(65536):  # it closes the line behind a refusal
            rest += data
        raise error_from_reply(status, rest, server="sandbox", kind="sandbox")
    if accept not in head:
        raise InfraError("The sandbox broker answered the handshake with a wrong key.", "gym logs sandbox")
    return rest


def _read_head(line: socket.socket) -> tuple[bytes, bytes]:
    found = b""
    while b"\r\n\r\n" not in found and len(found) < 1 << 16:
        data = line.recv(65536)
        if not data:
            raise InfraError("The sandbox broker closed the line before it answered.", "gym ps; gym logs sandbox")
        found += data
    head, _, rest = found.partition(b"\r\n\r\n")
    return head, rest

"""The terminal's handshake: what comes right behind it is kept, and a wrong peer is found out."""

from __future__ import annotations

import socket
import threading

import pytest

from gym.cli.sandbox.terminal_socket import upgrade
from gym.errors import InfraError
from gym.http.websocket import accept_key
from gym.wire.failures import RolloutError

SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nsec-websocket-accept: KEY\r\n\r\n"


def answering(reply: bytes, *, honest: bool = True) -> socket.socket:
    """A peer that reads the handshake, then says `reply`, with the right key in it where it is honest."""
    ours, theirs = socket.socketpair()

    def answer() -> None:
        with theirs:
            key = theirs.recv(65536).partition(b"sec-websocket-key: ")[2].partition(b"\r\n")[0]
            theirs.sendall(reply.replace(b"KEY", accept_key(key) if honest else b"another one's"))

    threading.Thread(target=answer, daemon=True).start()
    return ours


def test_what_comes_right_behind_the_handshake_is_not_lost() -> None:
    with answering(SWITCHED + b"\x82\x02$ ") as sock:
        rest = upgrade(sock, "/attach", "token")
        assert rest + sock.recv(65536) == b"\x82\x02$ "


def test_a_refusal_is_reported_in_the_brokers_words() -> None:
    body = b'{"error": {"kind": "sandbox", "message": "sandbox sb1 is gone", "retryable": true}}'
    with (
        answering(b"HTTP/1.1 410 Gone\r\n\r\n" + body) as sock,
        pytest.raises(RolloutError, match="sandbox sb1 is gone"),
    ):
        upgrade(sock, "/attach", "token")


def test_a_peer_that_is_not_a_websocket_server_is_found_out() -> None:
    with answering(SWITCHED, honest=False) as sock, pytest.raises(InfraError, match="with a wrong key"):
        upgrade(sock, "/attach", "token")
    with answering(b"") as sock, pytest.raises(InfraError, match="closed the line"):
        upgrade(sock, "/attach", "token")

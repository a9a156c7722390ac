"""Who may connect to a server on a node's address, decided by the kernel: real sockets, no server."""

from __future__ import annotations

import select
import socket
import sys

import pytest

from gym.runtime.local.listeners import listen_at
from gym.runtime.slurm.peer_filter import SO_ATTACH_FILTER, allow_peers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux alone filters so")


def test_a_peer_gets_through_and_a_stranger_never_gets_a_connection() -> None:
    with listen_at("127.0.0.1") as listener:
        allow_peers(listener, ("127.0.0.2", "127.0.0.16/28"))
        stranger = _begin("127.0.0.9", listener)
        for address in ("127.0.0.2", "127.0.0.20"):
            with socket.create_connection(listener.getsockname(), 10, (address, 0)) as peer:
                accepted, found = listener.accept()
                with accepted:
                    assert found == peer.getsockname()
                    peer.sendall(b"through")
                    assert accepted.recv(7) == b"through"
        with stranger:  # it knocked before both of them
            assert not select.select([], [stranger], [], 0)[1]


def test_no_program_that_gets_the_socket_takes_the_filter_off() -> None:
    with listen_at("127.0.0.1") as listener:
        allow_peers(listener, ("127.0.0.2",))
        with pytest.raises(PermissionError):
            listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER + 1, 0)  # SO_DETACH_FILTER


def _begin(address: str, listener: socket.socket) -> socket.socket:
    found = socket.socket()
    found.setblocking(False)
    found.bind((address, 0))
    with pytest.raises(BlockingIOError):
        found.connect(listener.getsockname())
    return found

from __future__ import annotations

import os
import socket
import sys

import pytest

from gym.errors import UserError
from gym.runtime.local import listeners


def test_a_kept_socket_makes_callers_wait_instead_of_refusing_them() -> None:
    with listeners.listen_on_loopback() as listener, socket.socket() as caller:
        caller.connect(listeners.address_of(listener))
        caller.sendall(b"early")
        served, _ = listener.accept()
        with served:
            assert served.recv(5) == b"early"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the port is let go just before")
def test_a_reserved_port_is_the_servers_alone() -> None:
    with listeners.reserve_port() as held:
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(listeners.address_of(held))
        with socket.create_server(listeners.address_of(held)) as server:
            assert server.getsockname() == held.getsockname()


def test_a_port_in_use_is_reported_with_its_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        with pytest.raises(UserError) as said:
            listeners.listen_for_router("127.0.0.1", port)

        assert f"held by pid {os.getpid()} (" in said.value.what
        assert listeners.holder_of(port) in said.value.what
    assert listeners.holder_of(port) == ""


def test_a_host_that_is_not_ours_is_reported_as_that() -> None:
    with pytest.raises(UserError, match=r"the router cannot listen on 192\.0\.2\.1:0"):
        listeners.listen_for_router("192.0.2.1", 0)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("10.0.0.7", "http://10.0.0.7:80"),
    ],
)
def test_a_listener_is_called_where_this_machine_finds_it(host: str, url: str) -> None:
    assert listeners.url_of(host, 80) == url


def test_localhost_is_loopback() -> None:
    with listeners.listen_for_router("localhost", 0) as listener:
        assert listeners.address_of(listener)[0] == "127.0.0.1"

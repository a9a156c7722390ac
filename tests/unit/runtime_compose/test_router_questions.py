"""Whether a router passes requests on, asked over a real socket."""

from __future__ import annotations

import socket
import threading

import pytest

from gym.plan.model import RouterPlan
from gym.runtime.compose.router_probe import RouterProbe
from tests.support.compose_plans import plan_of, service
from tests.support.ranged import Faults, Handler, serving

MCQA = service("mcqa")


def health_at(port: int, token: str = "") -> RouterProbe:
    return RouterProbe(plan_of(MCQA, router=RouterPlan(port=port)), token)


def handler(faults: Faults, service_status: int, own_status: int) -> type[Handler]:
    class Router(Handler):
        def do_GET(self) -> None:
            self.send(own_status if self.path == "/healthz" else service_status)

    Router.faults = faults
    return Router


@pytest.mark.parametrize(
    ("service_status", "own_status", "routed"),
    [(200, 200, True), (500, 503, True), (503, 200, False), (404, 200, True), (404, 401, True), (404, 404, False)],
)
def test_an_instance_is_routed_when_its_answer_came_through(
    service_status: int, own_status: int, routed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # the router is on this machine: no proxy is asked
    monkeypatch.setenv("NO_PROXY", "")
    faults = Faults()
    with serving(handler(faults, service_status, own_status)) as port:
        assert health_at(port, "t0ken").is_routed(MCQA) is routed
    assert all(one.authorized for one in faults.seen)


def test_where_no_http_is_spoken_nothing_is_routed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        speaker = threading.Thread(target=say_hello, args=(listener,))
        speaker.start()
        assert not health_at(port).is_routed(MCQA)
        speaker.join()
    assert not health_at(port).is_routed(MCQA)  # closed now


def say_hello(listener: socket.socket) -> None:
    peer, _ = listener.accept()
    with peer:
        peer.recv(4096)
        peer.sendall(b"220 mail\r\n")

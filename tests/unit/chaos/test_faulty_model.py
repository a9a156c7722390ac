"""The proxy before a model, on real sockets: what it passes on, and every way in which it spoils a reply."""

from __future__ import annotations

import http.client
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gym.chaos.chaos_setup import ModelProxy
from gym.chaos.faulty_model import FaultyModel, serve_faulty_model
from gym.errors import InfraError

REPLY = b'{"output": "' + b"x" * 5000 + b'"}'


class Provider(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        assert body == b'{"input": "hi"}'
        assert self.path == "/base/v1/responses"
        self.send_response(200)
        self.send_header("x-key-seen", self.headers["authorization"])
        self.send_header("content-length", str(len(REPLY)))
        self.end_headers()
        self.wfile.write(REPLY)

    def log_message(self, *_: object) -> None:
        pass


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


@pytest.fixture
def provider() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/base"
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def proxy_of(url: str) -> Iterator[tuple[FaultyModel, http.client.HTTPConnection]]:
    port = free_port()
    with serve_faulty_model(ModelProxy(port, url), ("127.0.0.1",), random.Random(1)) as model:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        yield model, connection
        connection.close()


def ask(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
    connection.request("POST", "/v1/responses", b'{"input": "hi"}', {"authorization": "Bearer k"})
    return connection.getresponse()


def test_it_passes_on_what_it_gets_and_one_connection_serves_many_calls(provider: str) -> None:
    with proxy_of(provider) as (model, connection):
        for _ in range(3):
            reply = ask(connection)
            assert (reply.status, reply.read(), reply.headers["x-key-seen"]) == (200, REPLY, "Bearer k")
        assert (model.calls, model.spoilt) == (3, 0)


def test_it_refuses_fails_and_talks_nonsense_as_its_mode_says(provider: str) -> None:
    with proxy_of(provider) as (model, connection):
        model.mode = "model-429"
        reply = ask(connection)
        assert (reply.status, reply.headers["retry-after"]) == (429, "1")
        reply.read()
        model.mode = "model-500"
        reply = ask(connection)
        assert (reply.status, b"chaos" in reply.read()) == (500, True)
        model.mode = "model-garbage"
        reply = ask(connection)
        assert (reply.status, b"\x00\xff" in reply.read()) == (200, True)
        model.mode = ""
        assert ask(connection).read() == REPLY
        assert (model.calls, model.spoilt) == (4, 3)


def test_a_torn_reply_ends_in_the_middle(provider: str) -> None:
    with proxy_of(provider) as (model, connection):
        model.mode = "model-torn"
        with pytest.raises(http.client.IncompleteRead) as cut:
            ask(connection).read()
        assert 0 < len(cut.value.partial) < len(REPLY)


def test_a_model_that_is_not_there_is_a_502() -> None:
    with proxy_of(f"http://127.0.0.1:{free_port()}") as (_, connection):
        reply = ask(connection)
        reply.read()
        assert reply.status == 502


def test_a_port_that_is_taken_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        with (
            pytest.raises(InfraError, match=f"port {port}"),
            serve_faulty_model(ModelProxy(port, "http://127.0.0.1:1"), ("127.0.0.1",), random.Random(1)),
        ):
            pass

"""Bytes against the router itself: whatever is sent, a server gets one request, with the router's own words in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.files import write_atomically
from gym.plan.model import Plan
from tests.support import router as support
from tests.support.router import Router, ask, eventually, router, service
from tests.support.smuggling import AMBIGUOUS, TYPED, RawBackend, exchange

UNKNOWN, HIDDEN = service("unknown", launch="image"), service("hidden", launch="image")
DROP = b"Connection: X-Forwarded-Host, X-Forwarded-For, X-Forwarded-Prefix, X-Forwarded-Proto, X-Real-Ip\r\n"


@pytest.fixture(scope="module")
def backend() -> Iterator[RawBackend]:
    made = RawBackend()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, backend: RawBackend) -> Iterator[Router]:
    """Bound wider, so it asks for a token."""
    yield from running(tmp_path_factory.mktemp("wide"), backend, needs_token=True)


@pytest.fixture(scope="module")
def loopback(tmp_path_factory: pytest.TempPathFactory, backend: RawBackend) -> Iterator[Router]:
    yield from running(tmp_path_factory.mktemp("loopback"), backend, needs_token=False)


def running(folder: Path, backend: RawBackend, *, needs_token: bool) -> Iterator[Router]:
    services = (UNKNOWN, HIDDEN)
    replicas = {"unknown": [backend.url], "hidden": []}
    with (
        support.console(folder, Plan(stack="test", services=services), token="hush") as console,
        router(folder / "router", services, replicas, console, needs_token=needs_token) as found,
    ):
        write_atomically(folder / "discovery.json", (found.home / "discovery.json").read_text())
        held = {"authorization": "Bearer hush"}
        eventually(lambda: ask(found.url, "/servers", headers=held).status == 200, what="the console")
        yield found


def send(stack: Router, rest: bytes, path: bytes = b"/s/unknown/x", token: bytes = b"hush") -> bytes:
    given = b"Authorization: Bearer " + token + b"\r\n" if token else b""
    head = b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + given
    return exchange(int(stack.url.rpartition(":")[2]), head + rest)


def headers(seen: bytes) -> dict[str, str]:
    lines = seen.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
    pairs = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    assert len({name for name, _ in pairs}) == len(pairs), pairs  # none twice: no reader has a choice
    return dict(pairs)


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_reaches_no_server_as_two(name: str, stack: Router, backend: RawBackend) -> None:
    path = f"/case-{[*AMBIGUOUS].index(name)}".encode()
    reply = send(stack, AMBIGUOUS[name], b"/s/unknown" + path)
    assert len(re.findall(rb"HTTP/1\.1 \d{3} ", reply)) == 1, reply
    assert b"".join(backend.connections()).count(path + b" HTTP/1.1") <= 1
    if seen := backend.request(path):  # the router wrote it again: one length, or chunks
        found = headers(seen)
        assert ("content-length" in found) != ("transfer-encoding" in found)
        assert found["host"] == "localhost"


def test_a_line_that_ends_with_a_line_feed_alone_ends_a_header_for_both(stack: Router, backend: RawBackend) -> None:
    send(stack, TYPED + b"X-A: b\nX-Gym-Rollout-Id: mine\r\nContent-Length: 2\r\n\r\n{}", b"/s/unknown/feed")
    found = headers(backend.request(b"/feed"))
    assert (found["x-a"], found["x-gym-rollout-id"]) == ("b", "mine")


def test_who_asks_and_how_is_the_routers_word_whatever_the_client_wrote(stack: Router, backend: RawBackend) -> None:
    forged = (
        b"X-Forwarded-Host: evil.example\r\nX-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: https\r\n"
        b"X-Forwarded-Port: 1\r\nX-Forwarded-Prefix: /evil\r\nX-Forwarded-Server: evil\r\nX-Real-Ip: 10.0.0.1\r\n"
    )
    odd = b"X_Forwarded_Host: evil\r\nX-Forwarded_Host: evil\r\nX_Real_Ip: evil\r\n"
    for number, lines in enumerate((forged, forged + DROP, forged.lower(), odd)):
        path = f"/who-{number}".encode()
        reply = send(stack, TYPED + lines + b"Content-Length: 2\r\n\r\n{}", b"/s/unknown" + path)
        assert reply.startswith(b"HTTP/1.1 200 ")
        seen = backend.request(path)
        found = headers(seen)
        assert b"evil" not in seen
        assert found["x-forwarded-host"] == "localhost"
        assert found["x-forwarded-prefix"] == "/s/unknown"
        assert (found["x-forwarded-for"], found["x-real-ip"]) == ("127.0.0.1", "127.0.0.1")
        assert found["x-forwarded-proto"] == "http"
        assert "authorization" not in found  # the token is between a client and the router


def test_no_list_of_headers_to_drop_takes_the_tokens_guard_away(stack: Router, backend: RawBackend) -> None:
    drops = (b"", DROP, b"Connection: Authorization\r\n", DROP + b"X-Forwarded-Uri: /healthz\r\n")
    body = TYPED + b"Content-Length: 2\r\n\r\n{}"
    for token in (b"", b"wrong", b"hus", b"hush\0", b"hush, Bearer hush"):
        for lines in drops:
            status = send(stack, lines + body, b"/s/unknown/guarded", token=token).split(b" ")[1]
            assert status in (b"401", b"400"), (token, lines, status)
    for path in (b"/s/hidden/../unknown/guarded", b"//s/unknown/guarded", b"/s/unknown/%2e%2e/unknown/guarded"):
        assert send(stack, body, path, token=b"").split(b" ")[1] != b"200"
    assert backend.request(b"/guarded") == b""
    send(stack, body, b"/s/unknown/guarded")
    assert backend.request(b"/guarded")


def test_no_path_leads_from_one_server_to_another(loopback: Router, backend: RawBackend) -> None:
    """Dots are taken out before a route is chosen; an encoded slash stays one letter of the path."""
    body = TYPED + b"Content-Length: 2\r\n\r\n{}"
    for path in (b"/s/unknown/../hidden/led", b"/s/unknown/%2e%2e/hidden/led", b"/s/unknown/.%2e/hidden/led"):
        assert send(loopback, body, path, token=b"").split(b" ")[1] == b"503", path  # the hidden one's own answer
    assert not [one for one in backend.connections() if b"/led HTTP/1.1" in one]
    for path in (b"/..%2Fhidden/x", b"/a%2F..%2Fb"):
        send(loopback, body, b"/s/unknown" + path, token=b"")
        assert backend.request(path)

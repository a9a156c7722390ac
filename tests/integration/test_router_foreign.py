"""The router as it is rendered before a real console: what it lets through and what it refuses, byte by byte."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.files import write_atomically
from gym.plan.model import Plan
from tests.support import router as support
from tests.support.router import Backend, Router, ask, eventually, router, service

MODEL = service("policy_model", type="responses_api_models", implementation="openai_model")
UNKNOWN = service("unknown", launch="image")
SERVICES = (MODEL, UNKNOWN)
PATHS = ("/s/policy_model/v1/responses", "/s/unknown/v1/responses", "/rollouts", "/metrics", "/discovery", "/nowhere")
JSON = "Content-Type: application/json"


@pytest.fixture
def upstream() -> Iterator[Backend]:
    made = Backend("model")
    yield made
    made.stop()


@pytest.fixture(params=[False, True], ids=["loopback", "wide"])
def stack(request: pytest.FixtureRequest, tmp_path: Path, upstream: Backend) -> Iterator[Router]:
    """Bound to loopback, or wider with a token."""
    replicas = {one.name: [upstream.url] for one in SERVICES}
    with (
        support.console(tmp_path, Plan(stack="test", services=SERVICES), token="hush") as console,
        router(tmp_path / "router", SERVICES, replicas, console, needs_token=request.param) as running,
    ):
        write_atomically(tmp_path / "discovery.json", (running.home / "discovery.json").read_text())
        held = {"authorization": "Bearer hush"}
        eventually(lambda: ask(running.url, "/servers", headers=held).status == 200, what="the console")
        yield running


def send(stack: Router, path: str, *lines: str, method: str = "POST", host: str = "localhost", body: str = "{}") -> int:
    """The status of a request whose every header stands here."""
    head = [f"{method} {path} HTTP/1.1", f"Host: {host}", *lines, "Authorization: Bearer hush", "Connection: close"]
    if body and not any("chunked" in line for line in lines):
        head.append(f"Content-Length: {len(body)}")
    port = int(stack.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(("\r\n".join([*head, "", ""]) + body).encode())
        return int(connection.makefile("rb").readline().split()[1])


def test_a_foreign_origin_is_refused_everywhere(stack: Router, upstream: Backend) -> None:
    for origin in ("http://evil.example", "null", "", "http://evil.localhost", "http://localhost:3000", "HTTP://EVIL"):
        for path in PATHS:
            assert send(stack, path, JSON, f"Origin: {origin}") == 403
            assert send(stack, path, f"oRIGIN: {origin}", method="GET", body="") == 403
    twice = ("Origin: http://localhost", "Origin: http://evil.example")
    assert send(stack, PATHS[0], JSON, *twice) == send(stack, PATHS[0], JSON, *twice[::-1]) == 403
    assert send(stack, PATHS[0], JSON, "Origin: http://evil.example", "X-Forwarded-Host: evil.example") == 403
    assert upstream.paths() == []


def test_what_a_browser_sends_without_an_origin_is_refused_but_for_a_link_to_the_console(
    stack: Router, upstream: Backend
) -> None:
    link = ("Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
    for site in ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"):
        assert {send(stack, path, site, method="GET", body="") for path in PATHS} == {403}
        assert {send(stack, path, site, *link, method="GET", body="") for path in PATHS[:2]} == {403}
        assert send(stack, "/", site, *link, method="GET", body="") == 200
        assert send(stack, "/", site, link[0], "Sec-Fetch-Dest: iframe", method="GET", body="") == 403
    assert upstream.paths() == []


def test_a_body_that_does_not_say_that_it_is_json_is_refused_everywhere(stack: Router, upstream: Backend) -> None:
    kinds = (
        "text/plain",
        "text/plain; application/json",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
    )
    for path in PATHS:
        assert {send(stack, path, f"Content-Type: {kind}") for kind in kinds} == {415}
        assert send(stack, path) == 415
        assert send(stack, path, method="PUT") == 415
    chunked = "2\r\n{}\r\n0\r\n\r\n"
    assert send(stack, PATHS[0], "Content-Type: text/plain", "Transfer-Encoding: chunked", body=chunked) == 415
    assert upstream.paths() == []


def test_programs_pass_in_every_spelling(stack: Router, upstream: Backend) -> None:
    port = stack.url.rpartition(":")[2]
    hosts = ("localhost", "LOCALHOST:9999", "localhost.", "gym.localhost:1", f"127.0.0.1:{port}", "[::1]:8022")
    for host in hosts:
        assert send(stack, PATHS[0], JSON, host=host) == 200
        assert send(stack, PATHS[1], JSON, f"Origin: http://{host}", host=host) == 200
    for kind in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/x-ndjson", "application/a+json"):
        assert send(stack, PATHS[0], f"Content-Type: {kind}") == 200
    assert send(stack, PATHS[0], body="") == 200
    assert send(stack, PATHS[0], "Content-Length: 0", "Content-Type: text/plain", body="") == 200
    assert send(stack, PATHS[0], "Sec-Fetch-Mode: cors", JSON) == 200  # what fetch of Node says of itself
    assert send(stack, PATHS[0], "Sec-Fetch-Site: same-origin", "Origin: http://localhost", JSON) == 200


@pytest.mark.parametrize("stack", [False], indirect=True)
def test_on_loopback_only_names_of_this_machine_are_answered(stack: Router, upstream: Backend) -> None:
    names = (
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:80",
        "[::1].evil.example",
        "",
        "router",
        "10.0.0.1",
    )
    for host in names:
        assert {send(stack, path, JSON, host=host) for path in PATHS} == {403}
        assert {send(stack, path, method="GET", host=host, body="") for path in PATHS} == {403}
    assert send(stack, f"http://evil.example{PATHS[0]}", JSON) == 403  # such a target outranks the header
    assert upstream.paths() == []


@pytest.mark.parametrize("stack", [True], indirect=True)
def test_bound_wider_any_name_leads_here_with_the_token(stack: Router, upstream: Backend) -> None:
    assert send(stack, PATHS[0], JSON, host="gym.example:11000") == 200
    assert send(stack, PATHS[0], JSON, "Origin: http://gym.example:11000", host="gym.example:11000") == 200
    assert send(stack, PATHS[0], JSON, "Origin: http://gym.example", host="gym.example:11000") == 403


def test_a_refusal_says_what_to_type(stack: Router) -> None:
    sent = {"content-type": "application/x-www-form-urlencoded", "authorization": "Bearer hush"}
    reply = ask(stack.url, "/rollouts", method="POST", body=b'{"rows": []}', headers=sent)
    assert reply.status == 415
    assert "-H 'content-type: application/x-ndjson'" in json.loads(reply.body)["error"]["message"]
    assert "ERR" not in stack.log()

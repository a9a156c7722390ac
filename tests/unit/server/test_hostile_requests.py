"""A served resources server and who writes bytes by hand: framing, paths, documents without end, others' cookies."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.router import Answer, ask
from tests.support.smuggling import AMBIGUOUS, SECOND, exchange

APP = """
from gym.server import ResourcesServer, VerifyRequest, tool

class Vault(ResourcesServer[dict]):
    async def seed(self, row) -> dict:
        return {}

    @tool
    async def echo(self, text: str = "", number: int = 0) -> str:
        return f"heard {text}"

    @tool
    async def put(self, state: dict, text: str) -> str:
        state["text"] = text
        return "kept"

    @tool
    async def take(self, state: dict) -> str:
        return state.get("text", "nothing")

    async def verify(self, rollout: VerifyRequest, state: dict) -> float:
        return 1.0

app = Vault.app()
"""
ROW = b'{"responses_create_params": {"input": "x"}}'
MAX_PLAIN = 100_000


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("vault")
    Path(folder, "app.py").write_text(APP)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        found = int(listener.getsockname()[1])
        environ = {**os.environ, "GYM_LISTEN": f"fd:{listener.fileno()}"}
        command = [sys.executable, "-m", "gym.server.serve", "app.py"]
        log = (folder / "log").open("wb")
        process = subprocess.Popen(
            command, cwd=folder, env=environ, pass_fds=(listener.fileno(),), stdout=log, stderr=log
        )
    try:
        yield found
        assert process.poll() is None, (folder / "log").read_text()  # nothing here may end it
    finally:
        process.terminate()
        process.wait(120)
        log.close()


def post(port: int, path: str, body: bytes, **headers: str) -> Answer:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return ask(f"http://127.0.0.1:{port}", path, method="POST", body=body, headers=named)


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_a_request_that_can_be_read_in_two_ways_is_read_in_none(name: str, port: int) -> None:
    reply = exchange(port, b"POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + AMBIGUOUS[name])
    assert re.match(rb"HTTP/1\.1 (400|403) ", reply), reply
    assert reply.count(b"HTTP/1.1 ") == 1


def test_two_requests_one_after_the_other_are_two(port: int) -> None:
    """What the tests above count with."""
    one = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    assert exchange(port, one + SECOND).count(b"HTTP/1.1 ") == 2


@pytest.mark.parametrize(
    "path",
    [
        "/../verify",
        "/echo/../verify",
        "/%2e%2e/verify",
        "/..%2fverify",
        "/echo%2f..%2fverify",
        "//verify",
        "/./verify",
        "/verify%00",
        "/verify%20",
        "/verify/",
        "/VERIFY",
        "/%EF%BD%96erify",
        "/verify;x=1",
        "/echo/%2e%2e/seed_session",
        "/s/other/verify",
    ],
)
def test_a_path_that_only_looks_like_a_route_is_none(path: str, port: int) -> None:
    reply = post(port, path, b"{}")
    assert reply.status == 404, reply.body
    assert post(port, "/verify", b"{}").status == 422  # and this is how the route itself answers


BOMBS = {
    "lists in lists": b"[" * 1_000_000,
    "closed lists in lists": b'{"text": ' + b"[" * MAX_PLAIN + b"]" * MAX_PLAIN + b"}",
    "objects in objects": b'{"a":' * MAX_PLAIN + b"1" + b"}" * MAX_PLAIN,
    "a whole number of many digits": b'{"number": ' + b"9" * MAX_PLAIN + b"}",
    "a negative one": b'{"number": -' + b"9" * 4_301 + b"}",
    "an exponent without end": b'{"number": 1e999999999}',
    "no number": b'{"number": NaN}',
    "text where a number belongs": b'{"number": "' + b"x" * MAX_PLAIN + b'"}',
    "bad values without end": b'{"text": [' + b",".join([b"1"] * MAX_PLAIN) + b"]}",
    "a body that is packed": gzip.compress(b'{"text": "' + b"a" * 10_000_000 + b'"}'),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_document_that_is_made_to_cost_is_the_callers_fault(name: str, port: int) -> None:
    for path in ("/echo", "/put", "/seed_session", "/verify", "/aggregate_metrics"):
        reply = post(port, path, BOMBS[name], content_encoding="gzip" if "packed" in name else "identity")
        assert reply.status == 422, (path, reply.body[:200])
        assert len(reply.body) < 2_000  # and is not sent back
    assert post(port, "/echo", b'{"text": "you"}').json() == "heard you"


def test_a_rollout_reaches_the_state_of_no_other_by_its_cookie(port: int) -> None:
    seeded = [post(port, "/seed_session", ROW).cookies()[0].partition(";")[0] for _ in range(2)]
    (mine, theirs), name = seeded, seeded[0].partition("=")[0]
    assert mine != theirs
    assert post(port, "/put", b'{"text": "secret answer"}', cookie=theirs).status == 200
    assert post(port, "/take", b"{}", cookie=mine).json() == "nothing"
    ids = {
        "cut": theirs[:-1],
        "longer": f"{theirs}0",
        "in other letters": f"{name}={theirs.partition('=')[2].upper()}",
        "empty": f"{name}=",
        "a pattern": f"{name}=*",
        "a path": f"{name}=../{theirs.partition('=')[2]}",
        "under another name": f"x{theirs}",
        "encoded": f"{name}=%{ord(theirs.partition('=')[2][0]):x}{theirs.partition('=')[2][1:]}",
        "none": "a=b",
    }
    for kind, cookie in ids.items():
        reply = post(port, "/take", b"{}", cookie=cookie)
        wanted = "row" if kind in ("empty", "under another name", "none") else "lost_session"
        assert reply.json()["error"]["kind"] == wanted, (kind, reply.body)
        assert b"secret" not in reply.body
    assert post(port, "/take", b"{}", cookie=theirs).json() == "secret answer"


def test_of_two_cookies_of_one_name_no_reader_can_choose_another_than_the_last(port: int) -> None:
    """A tool cannot be given one session, and the verifier another, by one and the same header."""
    seeded = [post(port, "/seed_session", ROW).cookies()[0].partition(";")[0] for _ in range(2)]
    both = "; ".join(seeded)
    assert post(port, "/put", json.dumps({"text": "last"}).encode(), cookie=both).status == 200
    assert post(port, "/take", b"{}", cookie=seeded[1]).json() == "last"
    assert post(port, "/take", b"{}", cookie=seeded[0]).json() == "nothing"

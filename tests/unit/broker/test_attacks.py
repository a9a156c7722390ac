"""The broker against callers with a token and without: other people's sandboxes, names and numbers without end."""

from __future__ import annotations

import asyncio
import socket
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from gym.broker.app import ROUTES
from gym.http.pool import HttpClient
from gym.wire.failures import RolloutError
from tests.support.sandbox_broker import OTHER_TOKEN, SPEC, TOKEN, Running, memory_broker

BODIES: dict[str, Any] = {
    "exec": {"argv": ["echo"]},
    "jobs": {"argv": ["echo"]},
    "ttl": {"seconds": 5},
    "shells/x": {"command": "true"},
}


async def send(running: Running, method: str, path: str, body: Any = None, token: str = TOKEN) -> tuple[int, Any]:
    http = HttpClient()
    content = body if isinstance(body, bytes) else b"" if body is None else orjson.dumps(body)
    pairs = [(b"authorization", b"Bearer " + token.encode())]
    try:
        reply = await http.request(method, running.url + path, body=content, headers=pairs, timeout=120)
    finally:
        await http.aclose()
    return reply.status, orjson.loads(reply.body)


def upgrade(url: str, path: str, token: str) -> bytes:
    """The first line of the answer to a WebSocket."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname or "", where.port or 0), 10) as sock:
        head = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\nupgrade: websocket\r\n"
        sock.sendall(f"{head}connection: upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: a\r\n\r\n".encode())
        return sock.recv(4096).partition(b"\r\n")[0]


async def test_a_foreign_sandbox_is_unknown_on_every_route() -> None:
    async with memory_broker() as (_, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        tried = 0
        for route in ROUTES:
            method, path = route.split(" ")
            if path.startswith("/sandboxes/*"):
                verb = path.removeprefix("/sandboxes/*").lstrip("/").replace("*", "x")
                query = "?path=/x" if verb in ("files", "stat", "list", "dirs", "tree") else ""
                status, body = await send(
                    running, method, f"/sandboxes/{sandbox.id}/{verb}{query}", BODIES.get(verb), OTHER_TOKEN
                )
                assert (status, sandbox.id in body["error"]["message"]) == (404, True), route
                tried += 1
        assert tried > 20
        assert (await sandbox.inspect()).state == "running"


@pytest.mark.parametrize(
    ("token", "query", "status"),
    [(OTHER_TOKEN, "", b"404"), ("none", "", b"401"), (TOKEN, "?user=-1", b"422"), (TOKEN, "?rows=-1", b"422")],
)
async def test_a_terminal_is_the_owners_and_asks_for_what_can_be(token: str, query: str, status: bytes) -> None:
    async with memory_broker() as (_, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        first = await asyncio.to_thread(upgrade, running.url, f"/sandboxes/{sandbox.id}/attach{query}", token)
        assert first.split(b" ")[1] == status


async def test_a_lease_of_a_foreign_owner_is_not_touched() -> None:
    async with memory_broker() as (_, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        status, body = await send(running, "DELETE", f"/leases/{sandboxes.owner}", token=OTHER_TOKEN)
        assert (status, body["removed"]) == (200, 0)
        assert (await sandbox.inspect()).state == "running"


@pytest.mark.parametrize("labels", [{"gym.type": "sandbox"}, {"com.docker.compose.project": "other"}, {"A B": "x"}])
async def test_a_fork_has_no_labels_that_a_sandbox_may_not_have(labels: dict[str, str]) -> None:
    async with memory_broker() as (engine, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        status, body = await send(running, "POST", f"/sandboxes/{sandbox.id}/fork", {"labels": labels})
        assert status in (403, 422)
        assert "labels." in body["error"]["message"]
        assert len(engine.alive) == 1


@pytest.mark.parametrize("user", ["-1", "4294967295", "a b", "../x", "x" * 5000, "0\n", "root:a b"])
async def test_a_user_that_cannot_be_is_the_askers_fault_and_no_strain_of_the_engine(user: str) -> None:
    async with memory_broker() as (_, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        with pytest.raises(RolloutError, match="user") as ran:
            await sandbox.exec(["id"], user=user)
        with pytest.raises(RolloutError, match="user") as wrote:
            await sandbox.put("/x", b"", user=user)
        assert (ran.value.status, wrote.value.status) == (422, 422)
        assert running.broker.execs.cuts == 0


async def test_what_is_kept_by_name_has_a_name_of_some_length_at_most() -> None:
    async with memory_broker() as (_, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        assert (await send(running, "POST", f"/leases/{'x' * 201}", {}))[0] == 422
        assert (await send(running, "POST", f"/leases/{'x' * 200}", {}))[0] == 200
        body = {"argv": ["echo"], "id": "x" * 301}
        assert (await send(running, "POST", f"/sandboxes/{sandbox.id}/exec", body))[0] == 422
        assert (await send(running, "POST", f"/sandboxes/{sandbox.id}/exec", {**body, "id": "x" * 300}))[0] == 200


async def test_one_request_id_of_two_instances_is_two_requests() -> None:
    async with memory_broker() as (_, running, _client):
        http = HttpClient()
        made = []
        for token in (TOKEN, OTHER_TOKEN, TOKEN):
            pairs = [(b"authorization", b"Bearer " + token.encode()), (b"x-gym-request-id", b"same")]
            reply = await http.request("POST", f"{running.url}/sandboxes", body=orjson.dumps(SPEC), headers=pairs)
            made.append(orjson.loads(reply.body)["id"])
        await http.aclose()
        assert made[0] == made[2] != made[1]


@pytest.mark.parametrize(
    "body",
    [
        b'{"image": "task", "limits": {"memory": "%s"}}' % (b"9" * 400),
        b'{"image": "task", "mounts": {"/x": "1.%sg"}}' % (b"9" * 400),
        b'{"image": "task", "ttl": 1e400}',
        b'{"build": {"dockerfile": "FROM scratch", "files": {"a": {"base64": 5}}}}',
        b'{"build": {"dockerfile": "FROM scratch", "timeout": 1e300}}',
        b"[" * 100_000,
        b'{"image": "\\ud800"}',
    ],
)
async def test_numbers_and_texts_beyond_all_measure_are_refused_in_words(body: bytes) -> None:
    async with memory_broker() as (_, running, _client):
        status, answer = await send(running, "POST", "/sandboxes", body)
        assert (status, answer["error"]["kind"]) == (422, "row")

"""The client: what it repeats and what never, whose words it passes on, what it leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gym.errors import UserError
from gym.sandbox.broker_client import FileProblem, Sandboxes
from gym.sandbox.sandbox_handle import to_request
from gym.sandbox.work_tools import WorkPlace, extend_in_use
from gym.server.config import Settings
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest
from tests.support.sandbox_broker import SPEC, TOKEN, MemoryEngine, broker_running, memory_broker, until

Script = Callable[[bytes], Awaitable[bytes]]


@asynccontextmanager
async def scripted(*replies: bytes | None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A peer that reads a request and says the next of its lines; None: it closes instead."""
    asked: list[bytes] = []
    waiting = list(replies)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length")), 0)
                asked.append(head + await reader.readexactly(length))
                reply = waiting.pop(0)
                if reply is None:
                    break
                writer.write(reply)
        except (asyncio.IncompleteReadError, ConnectionError, IndexError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        server.close()
        await server.wait_closed()


def reply(status: int, body: bytes, *headers: bytes) -> bytes:
    head = [b"HTTP/1.1 %d X" % status, b"content-length: %d" % len(body), b"x-gym-broker: first", *headers]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


async def test_a_request_with_an_id_is_sent_again_with_the_same_id_and_says_to_whom_it_was_sent_first() -> None:
    async with scripted(reply(200, b"{}"), None, reply(200, b'{"ok":1}')) as (url, asked):
        client = Sandboxes(url, TOKEN)
        await client.call("GET", "/status")
        answer = await client.call("POST", "/sandboxes/x/exec", {}, request_id="r1")
        await client._http.aclose()
    assert answer.body == b'{"ok":1}'
    assert all(b"x-gym-request-id: r1" in request for request in asked[1:])
    assert [b"x-gym-broker: first" in request for request in asked] == [False, False, True]


async def test_a_request_without_an_id_is_never_sent_twice() -> None:
    async with scripted(None, reply(200, b"{}")) as (url, asked):
        client = Sandboxes(url, TOKEN)
        with pytest.raises(RolloutError) as failed:
            await client.call("POST", "/sandboxes/x/shells", {})
        await client._http.aclose()
    assert len(asked) == 1
    assert (failed.value.kind, failed.value.retryable) == ("sandbox", True)


async def test_a_broker_that_is_busy_is_asked_again_until_the_deadline() -> None:
    busy = b'{"error":{"kind":"sandbox","message":"full","retryable":true}}'
    async with scripted(reply(429, busy, b"retry-after: 1"), reply(200, b'"done"')) as (url, asked):
        client = Sandboxes(url, TOKEN)
        assert (await client.call("POST", "/sandboxes", {})).body == b'"done"'
        assert len(asked) == 2
        await client._http.aclose()
    async with scripted(reply(429, busy, b"retry-after: 60")) as (url, _):
        client = Sandboxes(url, TOKEN)
        with pytest.raises(RolloutError, match="full") as refused:
            await client.call("POST", "/sandboxes", {}, timeout=1.0)
        assert refused.value.retryable
        await client._http.aclose()


async def test_a_refusal_passes_on_as_it_is() -> None:
    body = b'{"error":{"kind":"row","server":"sandbox","message":"not granted","retryable":false}}'
    gone = b'{"error":{"kind":"sandbox","message":"f: gone","retryable":false,"errno":2,"path":"f"}}'
    async with scripted(reply(403, body), reply(404, gone), reply(502, b"<html>")) as (url, _):
        client = Sandboxes(url, TOKEN)
        with pytest.raises(RolloutError) as refused:
            await client.call("GET", "/x")
        assert (refused.value.kind, refused.value.message, refused.value.retryable) == ("row", "not granted", False)
        with pytest.raises(FileProblem) as missing:
            await client.call("GET", "/x")
        assert (missing.value.errno, missing.value.path) == (2, "f")
        with pytest.raises(RolloutError) as foreign:
            await client.call("GET", "/x")
        assert (foreign.value.kind, foreign.value.retryable) == ("sandbox", True)
        await client._http.aclose()


async def test_a_broker_that_is_on_its_way_back_is_waited_for() -> None:
    async with scripted() as (url, _):
        port = int(url.rpartition(":")[2])
    client = Sandboxes(url, TOKEN)
    waiting = asyncio.ensure_future(client.call("POST", "/sandboxes/x/shells", {}))
    await asyncio.sleep(0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply(200, b'"back"'))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    assert (await waiting).body == b'"back"'
    server.close()
    await server.wait_closed()
    await client._http.aclose()


async def test_no_listener_is_a_failure_that_may_be_retried() -> None:
    async with scripted() as (url, _):
        pass
    client = Sandboxes(url, TOKEN)
    with pytest.raises(RolloutError, match="no connection") as failed:
        await client.call("GET", "/status", retry_seconds=0.1)
    assert (failed.value.kind, failed.value.retryable) == ("sandbox", True)
    await client._http.aclose()


@pytest.mark.parametrize("body", [b"", b"5\r\nhel", b"5\r\nhello\r\n", b"zz\r\n"])
async def test_a_reply_that_breaks_off_is_not_taken_for_a_whole_one(body: bytes) -> None:
    cut = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + body

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(cut)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = Sandboxes(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", TOKEN)
    with pytest.raises(RolloutError, match="breaks off"):
        async with client.streaming("GET", "/x") as incoming:
            await incoming.whole()
    server.close()
    await server.wait_closed()


async def test_a_client_keeps_its_lease_by_itself() -> None:
    engine = MemoryEngine()
    async with broker_running(engine) as running, Sandboxes(running.url, TOKEN, lease_seconds=8.0) as client:
        beats = running.broker.leases
        beats._seconds = 8.0  # also of a caller that has not said yet how long it wants: a lease is never shortened
        sandbox = await client.create(SPEC)
        first = beats._expiry["mcqa", client.owner]
        await until(lambda: beats._expiry["mcqa", client.owner] > first)
        assert (await sandbox.exec(["x"])).ok


async def test_a_removal_that_could_not_be_asked_for_is_asked_for_later() -> None:
    async with memory_broker() as (engine, running, client):
        sandbox = await client.create(SPEC)
        url, client.url = client.url, "http://127.0.0.1:1"
        await sandbox.delete()
        assert sandbox.id in engine.alive
        client.url = url
        assert client._to_remove == {sandbox.id}
        assert client._lease_task is not None
        client._lease_task.cancel()
        client._lease_task = None
        await client.begin()
        await until(lambda: sandbox.id not in engine.alive)


def test_without_a_grant_the_error_says_what_to_add() -> None:
    with pytest.raises(UserError, match="asks for sandboxes") as missing:
        Sandboxes.from_settings(Settings(name="mcqa"))
    assert "sandbox:" in str(missing.value)
    settings = Settings(name="mcqa", sandbox_url="http://sandbox:9000/", sandbox_token="t")
    assert Sandboxes.from_settings(settings).url == "http://sandbox:9000"


def test_a_command_is_a_line_for_the_shell_or_an_argv() -> None:
    assert to_request("ls -l", {"timeout": 5}).words() == ("/bin/sh", "-c", "ls -l")
    assert to_request(["ls", "-l"], {}).argv == ("ls", "-l")
    ready = ExecRequest(argv=("x",))
    assert to_request(ready, {}) is ready
    assert to_request(ready, {"timeout": 5.0}).timeout == 5.0


async def test_a_file_of_this_machine_is_sent_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 3_000_000)
    async with memory_broker() as (engine, _, client):
        sandbox = await client.create(SPEC)
        await sandbox.put("/there", path)
        assert engine.alive[sandbox.id].memory.files == {"/there": b"x" * 3_000_000}
        assert await sandbox.get("/there", offset=2_999_990) == b"x" * 10


async def test_a_sandbox_in_use_gets_its_time_again_once_less_than_half_is_left() -> None:
    async with memory_broker() as (_, _running, sandboxes):
        sandbox = await sandboxes.create({**SPEC, "ttl": 1000})
        ends = sandbox.info.expires
        await extend_in_use(WorkPlace(sandbox=sandbox))
        await extend_in_use(WorkPlace(sandbox=sandbox, ttl=1500))
        assert (await sandbox.inspect()).expires == ends
        await extend_in_use(WorkPlace(sandbox=sandbox, ttl=3000))
        assert (await sandbox.inspect()).expires > ends + 1500

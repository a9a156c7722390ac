from __future__ import annotations

import asyncio
import socket

import pytest

from gym.console.probes import Probe, Prober
from gym.http.pool import HttpClient
from gym.wire.discovery import Discovery, InstanceView, ReplicaView


async def probe(url: str, *, timeout: float = 5.0) -> Probe:
    instance = InstanceView(type="resources_servers", implementation="x", replicas=(ReplicaView(id="x-1", url=url),))
    client = HttpClient()
    found = await Prober(client, timeout).probe(Discovery(stack="gym", instances={"x": instance}), {})
    await client.aclose()
    return found["x-1"]


async def answered(reply: bytes) -> Probe:
    """A replica that answers with these bytes, whatever it is asked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        return await probe(f"http://127.0.0.1:{port}")


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


async def test_what_a_server_says_beyond_being_well_is_kept_without_its_secrets() -> None:
    found = await answered(ok(b'{"status":"ok","name":"x","sessions":3,"api_key":"sk-canary-0123456789"}'))
    assert found.ok
    assert found.health == {"sessions": 3, "api_key": "****"}


@pytest.mark.parametrize("body", [b"", b"ok", b"[1]", b"null", b'{"a":' + b"1" * 70_000 + b"}"])
async def test_a_server_that_says_something_else_is_well_too(body: bytes) -> None:
    found = await answered(ok(body))
    assert (found.ok, found.health) == (True, {})


async def test_one_that_starts_or_drains_is_not_well() -> None:
    found = await answered(b'HTTP/1.1 503 x\r\ncontent-length: 23\r\n\r\n{"status": "draining"} ')
    assert (found.outcome, found.detail) == ("unknown_error", "/healthz answered 503")


async def test_one_that_accepts_and_keeps_silent_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = await probe(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=1)
    assert (found.outcome, found.detail) == ("timeout", "no answer on /healthz within 1 s")


@pytest.mark.parametrize("reply", [b"", b"SSH-2.0-x\r\n\r\n"])
async def test_one_that_speaks_no_http_is_an_error_and_not_a_crash(reply: bytes) -> None:
    assert (await answered(reply)).outcome == "unknown_error"


async def test_a_url_that_is_none_is_an_error_and_not_a_crash() -> None:
    assert (await probe("nonsense")).outcome in ("unknown_error", "connection_error")

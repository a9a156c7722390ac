from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gym.runtime.local.listeners import address_of, listen_on_loopback
from gym.runtime.local.probe import probe
from gym.server.blocked_replies import failure_of_others, reply_of

Address = tuple[str, int]


@asynccontextmanager
async def answering(reply: bytes, seen: list[bytes] | None = None) -> AsyncIterator[Address]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.append(request)
        writer.write(reply)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()


async def test_200_is_well_and_other_answers_are_reported() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n{}") as address:
        assert await probe(address, "/healthz", timeout=60) == ""
    async with answering(b"HTTP/1.1 503 No\r\n\r\n") as address:
        assert await probe(address, "/healthz", timeout=60) == "status 503 on /healthz"
        assert await probe(address, "/", wrong=frozenset(), timeout=60) == ""


async def test_a_server_that_says_its_loop_is_blocked_is_quoted() -> None:
    failure = failure_of_others("x", "its event loop is blocked at app.py:12 in verify: time.sleep(30)")
    async with answering(reply_of(failure)) as address:
        assert await probe(address, "/healthz", timeout=60) == failure.message


async def test_what_is_not_http_is_not_well() -> None:
    for words in (b"220 mail\r\n", b"", b"HTTP/1.1 what\r\n\r\n"):
        async with answering(words) as address:
            assert await probe(address, "/", wrong=frozenset(), timeout=60) == "no HTTP answer on /"


async def test_no_listener_and_no_answer_are_distinguished() -> None:
    async with answering(b"") as address:
        pass
    assert "refused" in await probe(address, "/healthz", timeout=60)
    with listen_on_loopback() as deaf:
        why = await probe(address_of(deaf), "/healthz", timeout=0.05)

    assert why == "no answer on /healthz within 0.05 s"


async def test_the_token_is_sent_where_one_is_needed() -> None:
    seen: list[bytes] = []
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n", seen) as address:
        await probe(address, "/a", timeout=60, token="t0ken")
        await probe(address, "/a", timeout=60)

    assert [b"Authorization: Bearer t0ken" in request for request in seen] == [True, False]

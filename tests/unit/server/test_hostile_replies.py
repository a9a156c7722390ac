"""What an endpoint that a rollout brought along may answer with: a reply that unpacks to all the memory there is."""

from __future__ import annotations

import asyncio
import gzip

import pytest

from gym.server import carrier
from gym.server.carrier import Broken, Carrier, open_session
from tests.support.raw_http import always, raw_server

LIMIT = 1 << 20
PACKED = gzip.compress(b"\0" * (64 << 20))


def reply(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


async def ask(url: str) -> bytes:
    session = open_session()
    try:
        deadline = asyncio.get_running_loop().time() + 60
        return (await Carrier(lambda: session).post(url, b"{}", {}, proxy=None, deadline=deadline)).body
    finally:
        await session.close()


async def test_a_reply_that_unpacks_beyond_all_measure_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrier, "MAX_BODY", LIMIT)
    assert len(PACKED) < LIMIT  # on the wire it is small
    async with raw_server(always(reply(PACKED))) as server:
        with pytest.raises(Broken, match="the reply is larger than 1048576 bytes"):
            await ask(server.url)


async def test_a_packed_reply_is_still_read() -> None:
    async with raw_server(always(reply(gzip.compress(b'{"a": 1}')))) as server:
        assert await ask(server.url) == b'{"a": 1}'

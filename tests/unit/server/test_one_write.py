"""Replies of hot routes on the wire: one write each, and HTTP/1.1 as it has to be."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import pytest

from gym.http.connection import SPLIT_WRITE
from gym.server import Route, Server
from gym.server.asgi import Answer, Call
from gym.server.one_write import CLOSE, Exchange
from gym.server.testing import running

ASKED = b"POST /say HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n%b"


class Speaker(Server):
    """Says what it is asked, as often as the body's number; a header may be given, too."""

    server_type = "responses_api_agents"
    extra: tuple[tuple[bytes, bytes], ...] = ()

    def routes(self) -> list[Route]:
        return [Route("/say", self.say), Route("/say", self.say, method="HEAD")]

    async def say(self, call: Call) -> Answer:
        return Answer(b"x" * int(call.body or b"3"), headers=self.extra)


@asynccontextmanager
async def talking(app: Any) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with running(app) as url, asyncio.timeout(120):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        try:
            yield reader, writer
        finally:
            writer.close()
            await writer.wait_closed()


@contextmanager
def counted_writes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How long the body was at each reply that took one way, and not ASGI's."""
    seen: list[int] = []
    write = Exchange._write

    def counting(self: Exchange, head: bytes, body: bytes) -> None:
        seen.append(len(body))
        write(self, head, body)

    monkeypatch.setattr(Exchange, "_write", counting)
    yield seen


def asked(size: int, more: bytes = b"") -> bytes:
    body = b"%d" % size
    return ASKED % (len(body), more, body)


async def read_reply(reader: asyncio.StreamReader) -> tuple[bytes, dict[bytes, bytes], bytes]:
    status, *lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
    headers = dict(line.split(b": ", 1) for line in lines)
    return status, headers, await reader.readexactly(int(headers[b"content-length"]))


async def test_a_reply_goes_past_asgi_and_the_connection_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with counted_writes(monkeypatch) as seen:
        async with talking(Speaker.app({}, name="speaker")) as (reader, writer):
            for size in (0, 5, SPLIT_WRITE + 1, 3_000_000, 1):
                writer.write(asked(size))
                status, headers, body = await read_reply(reader)
                assert (status, len(body)) == (b"HTTP/1.1 200 OK", size)
                assert headers[b"content-type"] == b"application/json"
                assert b"connection" not in headers
    assert seen == [0, 5, SPLIT_WRITE + 1, 3_000_000, 1]


async def test_a_request_leaves_no_circle_of_objects_behind() -> None:
    """With ten of them a request, the looks for circles took a third of an agent's CPU."""
    async with talking(Speaker.app({}, name="speaker")) as (reader, writer):
        for _ in range(3):
            writer.write(asked(5))
            await read_reply(reader)
        gc.collect()
        gc.disable()
        try:
            for _ in range(50):
                writer.write(asked(5))
                await read_reply(reader)
            assert gc.collect() < 50
        finally:
            gc.enable()


async def test_requests_in_one_packet_are_answered_in_their_order() -> None:
    async with talking(Speaker.app({}, name="speaker")) as (reader, writer):
        writer.write(b"".join(asked(size) for size in (7, 100_000, 2, 0)))
        assert [len((await read_reply(reader))[2]) for _ in range(4)] == [7, 100_000, 2, 0]


async def test_a_body_that_comes_in_pieces_is_waited_for() -> None:
    async with talking(Speaker.app({}, name="speaker")) as (reader, writer):
        whole = asked(123456)
        for place in range(0, len(whole), 9):
            writer.write(whole[place : place + 9])
            await writer.drain()
            await asyncio.sleep(0)
        assert len((await read_reply(reader))[2]) == 123456


async def test_who_asks_before_sending_a_body_gets_a_100_continue() -> None:
    async with talking(Speaker.app({}, name="speaker")) as (reader, writer):
        head, _, body = asked(4, b"expect: 100-continue\r\n").rpartition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert (await read_reply(reader))[2] == b"xxxx"


@pytest.mark.parametrize("request_line", [b"HTTP/1.0", b"HTTP/1.1"])
async def test_a_connection_is_closed_for_who_wants_that(request_line: bytes) -> None:
    async with talking(Speaker.app({}, name="speaker")) as (reader, writer):
        more = b"connection: close\r\n" if request_line == b"HTTP/1.1" else b""
        writer.write(asked(4, more).replace(b"HTTP/1.1", request_line))
        _, headers, body = await read_reply(reader)
        assert (headers[b"connection"], body) == (b"close", b"xxxx")
        assert await reader.read() == b""


async def test_a_server_that_says_close_closes() -> None:
    class Closing(Speaker):
        extra = (CLOSE,)

    async with talking(Closing.app({}, name="speaker")) as (reader, writer):
        writer.write(asked(4))
        assert (await read_reply(reader))[1][b"connection"] == b"close"
        assert await reader.read() == b""


async def test_a_head_has_no_body() -> None:
    async with talking(Speaker.app({}, name="speaker")) as (reader, writer):
        writer.write(b"HEAD /say HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" + asked(2))
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"content-length: 3" in head
        assert (await read_reply(reader))[2] == b"xx"


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b=c", b"a\nb: c", b"a\rb", b"a\0b"])
async def test_a_value_begins_no_header_of_its_own(value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    class Injected(Speaker):
        extra = ((b"x-said", value),)

    async with talking(Injected.app({}, name="speaker")) as (reader, writer):
        writer.write(asked(4))
        assert value not in await reader.read()
    assert "Invalid HTTP header value" in caplog.text


async def test_who_reads_slowly_gets_everything() -> None:
    """Replies wait in the server while its caller reads nothing; the next ones go by ASGI until it has caught up."""
    async with talking(Speaker.app({}, name="speaker")) as (reader, writer):
        writer.write(asked(4_000_000) * 6)
        await writer.drain()
        for _ in range(6):
            assert len((await read_reply(reader))[2]) == 4_000_000


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"POST /say HTTP/1.1\r\n", b"x: y\r\n" * 10_000),
        (b"POST /say HTTP/1.1\r\nx: ", b"y" * 60_000),
        (b"POST /", b"y" * 60_000),
        (asked(5) + b"POST /say HTTP/1.1\r\n", b"x: y\r\n" * 10_000),
        (b"POST /say HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n", b"x: y\r\n" * 10_000),
    ],
    ids=["fields", "one field", "address", "a second head", "trailers"],
)
async def test_a_head_without_end_closes_the_connection(begin: bytes, more: bytes) -> None:
    async with running(Speaker.app({}, name="speaker")) as url, asyncio.timeout(120):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(begin)
        with suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(more)
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_bodies_in_pieces_are_not_part_of_a_head() -> None:
    async with talking(Speaker.app({}, name="speaker")) as (reader, writer):
        for _ in range(3):
            writer.write(b"POST /say HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 3000001\r\n\r\n")
            for _ in range(30):
                writer.write(b" " * 100_000)
                await writer.drain()
            writer.write(b"7")
            assert (await read_reply(reader))[0] == b"HTTP/1.1 200 OK"

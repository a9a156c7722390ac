"""Long bodies that go past the parser: whole, in their order, and lost where the peer goes away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from gym.http.direct_body import FIRST, MIN_REST, missing_length
from gym.http.pool import HttpClient
from gym.server import Route, Server
from gym.server.asgi import Answer, Call
from gym.server.testing import running
from gym.wire.pieces import Pieces

SIZES = [MIN_REST - 1, MIN_REST, 300_000, FIRST - 1, FIRST, FIRST + 1, 5 * FIRST + 3]
LOOPS = [uvloop.new_event_loop, asyncio.new_event_loop]


def made(size: int) -> bytes:
    return random.Random(size).randbytes(size).hex().encode()[:size]


class Mirror(Server):
    server_type = "responses_api_agents"

    def routes(self) -> list[Route]:
        return [Route("/mirror", self.mirror)]

    async def mirror(self, call: Call) -> Answer:
        return Answer(call.body)


def run(loop: Callable[[], asyncio.AbstractEventLoop], work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(work, 120))


@pytest.mark.parametrize("loop", LOOPS)
def test_bodies_of_any_size_come_whole_both_ways(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def work() -> None:
        async with running(Mirror.app({}, name="mirror")) as url:
            http = HttpClient()
            for size in [*SIZES, 3, 0, 2 * FIRST]:
                body = made(size)
                in_pieces = Pieces((body[:7], memoryview(body)[7:]))
                for sent in (body, in_pieces):
                    assert (await http.request("POST", f"{url}/mirror", body=sent)).body == body
            assert len(http._open) == 1
            await http.aclose()

    run(loop, work())


async def test_requests_behind_a_long_one_are_answered_in_their_order() -> None:
    async with running(Mirror.app({}, name="mirror")) as url, asyncio.timeout(120):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        bodies = [made(size) for size in (900_000, 2, 3 * FIRST, 70_000, 0)]
        asked = [
            b"POST /mirror HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(one), one) for one in bodies
        ]
        writer.write(b"".join(asked))
        for body in bodies:
            answered = await reader.readuntil(b"\r\n\r\n")
            assert b"content-length: %d\r\n" % len(body) in answered
            assert await reader.readexactly(len(body)) == body
        writer.close()
        await writer.wait_closed()


async def test_a_caller_that_goes_away_while_it_sends_is_let_go() -> None:
    async with running(Mirror.app({}, name="mirror")) as url, asyncio.timeout(120):
        for sent in (10, 400_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(b"POST /mirror HTTP/1.1\r\nhost: x\r\ncontent-length: 2000000\r\n\r\n" + made(sent))
            writer.write_eof()
            await reader.read()
            writer.close()
        http = HttpClient()
        assert (await http.request("POST", f"{url}/mirror", body=b"1")).body == b"1"
        await http.aclose()


@asynccontextmanager
async def answering(reply: bytes, *, closes: bool = False) -> AsyncIterator[str]:
    """A peer that gives these bytes for any request."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(reply)
                await writer.drain()
                if closes:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def reply_of(body: bytes, length: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (length, body)


async def test_a_reply_that_breaks_off_is_an_error_and_no_reply() -> None:
    async with answering(reply_of(made(500_000), 900_000), closes=True) as url:
        http = HttpClient()
        with pytest.raises(ConnectionError, match="closed the connection before it answered"):
            await http.request("GET", url, timeout=60)
        await http.aclose()


async def test_bytes_behind_a_long_reply_reach_no_reader() -> None:
    body = made(900_000)
    async with answering(reply_of(body, len(body)) + reply_of(b"unasked", 7)) as url:
        http = HttpClient()
        for _ in range(3):
            assert (await http.request("GET", url, timeout=60)).body == body
        await http.aclose()


async def test_a_reply_that_is_not_all_there_in_time_is_given_up() -> None:
    async with answering(reply_of(made(500_000), 900_000)) as url:
        http = HttpClient()
        with pytest.raises(TimeoutError):
            await http.request("GET", url, timeout=0.2)
        assert not http._open or all(one.closed for one in http._open)
        await http.aclose()


async def test_a_length_beyond_all_measure_takes_no_memory() -> None:
    async with answering(reply_of(made(500_000), 10**15), closes=True) as url:
        http = HttpClient(max_body=400_000)
        with pytest.raises(ConnectionError, match="larger than 400000 bytes"):
            await http.request("GET", url, timeout=60)
        await http.aclose()


@pytest.mark.parametrize(
    ("headers", "come", "length"),
    [
        ([(b"content-length", b"1000000")], 100, 1_000_000),
        ([(b"content-length", b"1000000")], 1_000_000 - MIN_REST + 1, 0),
        ([(b"content-length", b"1000000"), (b"transfer-encoding", b"chunked")], 0, 0),
        ([], 0, 0),
    ],
)
def test_what_goes_past_the_parser(headers: list[tuple[bytes, bytes]], come: int, length: int) -> None:
    assert missing_length(headers, come) == length

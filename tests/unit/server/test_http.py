"""The HTTP client against peers of every manner, on real sockets."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator

import pytest

from gym.http.dial import parse_url
from gym.http.pool import HttpClient, NotSent, Reply
from tests.support.raw_http import OK, Peer, RawServer, always, once, raw_server


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    made = HttpClient()
    yield made
    await made.aclose()


async def post(client: HttpClient, server: RawServer, body: bytes = b"{}", timeout: float | None = 10.0) -> Reply:
    return await client.request("POST", f"{server.url}/path?a=1", body=body, timeout=timeout)


async def test_a_request_says_what_a_server_needs(client: HttpClient) -> None:
    async with raw_server(always(OK)) as server:
        reply = await client.request(
            "POST", f"{server.url}/p?q=1", body=b"{}", headers=[(b"x-a", b"1"), (b"x-b", b"2")]
        )
        host = server.url.removeprefix("http://").encode()
        lines = server.requests[0].split(b"\r\n")
    assert reply == Reply(200, [(b"content-length", b"2")], b"ok")
    assert lines[0] == b"POST /p?q=1 HTTP/1.1"
    assert set(lines[1:-2]) == {
        *(b"host: " + host, b"content-type: application/json", b"content-length: 2", b"x-a: 1", b"x-b: 2")
    }
    assert lines[-1] == b"{}"


async def test_a_get_has_no_body_and_no_length(client: HttpClient) -> None:
    async with raw_server(always(OK)) as server:
        await client.request("GET", server.url)
        assert server.requests[0].startswith(b"GET / HTTP/1.1\r\nhost: ")
        assert b"content-length" not in server.requests[0]


async def test_connections_are_kept(client: HttpClient) -> None:
    async with raw_server(always(OK)) as server:
        for _ in range(5):
            assert (await post(client, server)).body == b"ok"
        assert (server.connections, len(server.requests)) == (1, 5)


async def test_requests_at_once_have_connections_of_their_own_and_give_them_back(client: HttpClient) -> None:
    async with raw_server(always(OK)) as server:
        for _ in range(2):
            await asyncio.gather(*(post(client, server) for _ in range(8)))
        assert server.connections == 8


async def test_no_more_connections_than_allowed_are_open_at_once() -> None:
    limited = HttpClient(per_host=2)
    async with raw_server(always(OK)) as server:
        replies = await asyncio.gather(*(post(limited, server) for _ in range(10)))
        assert server.connections <= 2
    await limited.aclose()
    assert [reply.status for reply in replies] == [200] * 10


async def test_a_request_that_waits_for_a_place_to_the_end_of_its_time_was_not_sent() -> None:
    limited, asked = HttpClient(per_host=1), asyncio.Event()

    async def silent(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.reader.read()

    async with raw_server(silent) as server:
        first = asyncio.create_task(post(limited, server))
        await asked.wait()
        with pytest.raises(NotSent, match="no place"):
            await post(limited, server, timeout=0.01)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert len(server.requests) == 1
    await limited.aclose()


@pytest.mark.parametrize(
    "pieces",
    [
        (OK,),
        tuple(OK[index : index + 1] for index in range(len(OK))),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n",
            b"1;ext=1\r\nk\r\n",
            b"0\r\nX-Trailer: 1\r\n\r\n",
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\n", OK),
        (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK,),
    ],
    ids=["at once", "byte by byte", "chunked", "after a 100", "after a 103"],
)
async def test_a_reply_is_whole_however_it_comes(client: HttpClient, pieces: tuple[bytes, ...]) -> None:
    async with raw_server(always(*pieces)) as server:
        for _ in range(2):
            reply = await post(client, server)
            assert (reply.status, reply.body) == (200, b"ok")
        assert server.connections == 1


async def test_a_reply_may_end_with_its_connection(client: HttpClient) -> None:
    async with raw_server(once(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", b"o", b"k")) as server:
        for _ in range(2):
            assert (await post(client, server)).body == b"ok"
        assert server.connections == 2


async def test_an_http_1_0_peer_is_understood_and_not_kept(client: HttpClient) -> None:
    async with raw_server(once(b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok")) as server:
        for _ in range(2):
            assert (await post(client, server)).body == b"ok"
        assert server.connections == 2


@pytest.mark.parametrize("status", [204, 304])
async def test_a_reply_without_a_body_ends_with_its_head(client: HttpClient, status: int) -> None:
    async with raw_server(always(b"HTTP/1.1 %d X\r\n\r\n" % status)) as server:
        for _ in range(2):
            assert await post(client, server) == Reply(status, [], b"")
        assert server.connections == 1


async def test_an_empty_reply_is_one(client: HttpClient) -> None:
    async with raw_server(always(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nX-Why: Because\r\n\r\n")) as server:
        reply = await post(client, server)
    assert reply == Reply(500, [(b"content-length", b"0"), (b"x-why", b"Because")], b"")
    assert reply.header(b"x-why") == b"Because"
    assert reply.header(b"x-none") is None


@pytest.mark.parametrize("size", [64 * 1024, 64 * 1024 + 1, 1_000_000])
async def test_large_bodies_go_both_ways(client: HttpClient, size: int) -> None:
    async def mirror(peer: Peer) -> None:
        while True:
            body = (await peer.request()).partition(b"\r\n\r\n")[2]
            await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body), body)

    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    async with raw_server(mirror) as server:
        for _ in range(2):
            assert (await post(client, server, body)).body == body


async def test_a_refused_connection_was_not_sent(client: HttpClient) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, not listening: refused
        port = held.getsockname()[1]
        with pytest.raises(NotSent, match=f"no connection to 127.0.0.1:{port}: "):
            await client.request("POST", f"http://127.0.0.1:{port}/")


async def test_a_peer_that_does_not_speak_tls_was_not_sent_to(client: HttpClient) -> None:
    async def no_tls(peer: Peer) -> None:
        await peer.say(OK)

    async with raw_server(no_tls) as server:
        with pytest.raises(NotSent, match="no connection to"):
            await client.request("POST", server.url.replace("http:", "https:"))


@pytest.mark.parametrize(
    "cut",
    [b"", b"HTTP/1.1 200 O", b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok"],
    ids=["before", "in the head", "in the body"],
)
async def test_a_reply_that_is_cut_off_leaves_the_outcome_unknown(client: HttpClient, cut: bytes) -> None:
    async with raw_server(once(cut)) as server:
        with pytest.raises(ConnectionError, match="closed the connection before it answered") as caught:
            await post(client, server)
        assert not isinstance(caught.value, NotSent)
        assert len(server.requests) == 1


async def test_a_chunked_reply_that_is_cut_off_is_not_a_reply(client: HttpClient) -> None:
    async with raw_server(once(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n")) as server:
        with pytest.raises(ConnectionError, match="before it answered"):
            await post(client, server)


@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH_9.9\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nokk",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nxxxx",
        b"\x00\xff\xfe",
    ],
)
async def test_what_is_not_an_http_reply_is_said_and_its_connection_left(client: HttpClient, garbage: bytes) -> None:
    async with raw_server(always(garbage)) as server:
        for _ in range(2):
            with pytest.raises(ConnectionError, match="not an HTTP reply"):
                await post(client, server, timeout=60)
        assert server.connections == 2


async def test_a_reply_larger_than_allowed_is_not_held() -> None:
    small = HttpClient(max_body=10)
    async with raw_server(always(b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n" + b"x" * 11)) as server:
        with pytest.raises(ConnectionError, match="larger than 10 bytes"):
            await post(small, server)
    await small.aclose()


async def test_a_reply_that_says_how_much_too_large_it_is_is_not_waited_for() -> None:
    small = HttpClient(max_body=10)
    async with raw_server(always(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\nx")) as server:
        with pytest.raises(ConnectionError, match="larger than 10 bytes"):
            await post(small, server)
    await small.aclose()


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 10_000),
        (b"HTTP/1.1 200 OK\r\nx: ", b"y" * 60_000),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", b"x: y\r\n" * 10_000),
    ],
    ids=["fields", "one field", "interim replies", "trailers"],
)
async def test_a_head_without_end_is_not_held(client: HttpClient, begin: bytes, more: bytes) -> None:
    async def endless(peer: Peer) -> None:
        await peer.request()
        await peer.say(begin)
        while True:
            await peer.say(more)

    async with raw_server(endless) as server:
        with pytest.raises(ConnectionError, match="the head of the reply is larger than 1048576 bytes"):
            await post(client, server, timeout=60)


async def test_a_body_in_chunks_of_one_byte_is_not_a_large_head(client: HttpClient) -> None:
    body = b"x" * 250_000
    chunks = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * len(body) + b"0\r\n\r\n"
    async with raw_server(always(chunks)) as server:
        assert (await post(client, server)).body == body


async def test_a_deadline_ends_a_request_and_its_connection(client: HttpClient) -> None:
    async def silent_at_first(peer: Peer) -> None:
        await peer.request()
        if peer_count() == 1:
            await peer.reader.read()
        await peer.say(OK)

    async with raw_server(silent_at_first) as server:

        def peer_count() -> int:
            return server.connections

        with pytest.raises(TimeoutError, match=r"no answer from 127\.0\.0\.1:\d+ in time"):
            await post(client, server, timeout=2)
        assert (await post(client, server)).body == b"ok"
        assert server.connections == 2


async def test_a_deadline_is_of_its_request_and_not_of_the_connection(client: HttpClient) -> None:
    other_is_over = asyncio.Event()

    async def answers(peer: Peer) -> None:
        while body := (await peer.request())[-1:]:
            if body == b"3":
                await peer.reader.read()
            if body == b"2":
                await other_is_over.wait()
            await peer.say(OK)

    async with raw_server(answers) as server:
        await post(client, server, b"1", timeout=2)  # in time
        second = asyncio.create_task(post(client, server, b"2", timeout=None))  # by the same connection
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await post(client, server, b"3", timeout=2.2)  # ends after the first one would have
        other_is_over.set()
        assert (await second).body == b"ok"
        assert server.connections == 2


async def test_a_cancelled_request_leaves_its_reply_to_no_other(client: HttpClient) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def late(peer: Peer) -> None:
        body = (await peer.request())[-1:]
        asked.set()
        await answer.wait()
        await peer.say(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n" + body)

    async with raw_server(late) as server:
        first = asyncio.create_task(post(client, server, b"1"))
        await asked.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        answer.set()
        assert (await post(client, server, b"2")).body == b"2"


async def test_a_second_reply_behind_the_first_reaches_no_caller(client: HttpClient) -> None:
    smuggled = b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nsmuggle"
    for cut in (1, 20, len(smuggled)):
        pieces = (OK + smuggled[:cut],)
        async with raw_server(always(*pieces)) as server:
            for _ in range(3):
                assert (await post(client, server)).body == b"ok"
            assert server.connections == 3


async def test_a_connection_that_the_peer_closed_while_idle_is_not_used_again(client: HttpClient) -> None:
    async with raw_server(once(OK)) as server:
        await post(client, server)
        deadline = asyncio.get_running_loop().time() + 60
        while any(not one.closed for idle in client._idle.values() for one in idle):
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.001)
        assert (await post(client, server)).body == b"ok"
        assert server.connections == 2


async def test_an_idle_connection_grows_too_old(client: HttpClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(always(OK)) as server:
        await post(client, server)
        monkeypatch.setattr("gym.http.pool.IDLE_SECONDS", -1.0)
        await post(client, server)
        assert server.connections == 2


@pytest.mark.parametrize(
    "header", [(b"x", b"1\r\ny: 2"), (b"x", b"1\n"), (b"x\r\ny", b"1"), (b"x", b"a\rb")], ids=lambda one: repr(one)
)
async def test_a_header_cannot_smuggle_another(client: HttpClient, header: tuple[bytes, bytes]) -> None:
    async with raw_server(always(OK)) as server:
        with pytest.raises(ValueError, match="line break in header"):
            await client.request("POST", server.url, headers=[header])
        assert server.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://host/", "host/path", "http:///path", "http://host/a b", "http://host/ü"),
        *("http://host:port/", "http://host:99999/", "http://host/?q=a b"),
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_url(url)


@pytest.mark.parametrize(
    ("url", "netloc", "target", "port"),
    [
        ("http://host", b"host", b"/", 80),
        ("https://host/p", b"host", b"/p", 443),
        ("http://host:8080/p?q=1#part", b"host:8080", b"/p?q=1", 8080),
        ("http://user:secret@host/p", b"host", b"/p", 80),
        ("http://[::1]:81/", b"[::1]:81", b"/", 81),
        ("http://bücher.example/", b"xn--bcher-kva.example", b"/", 80),
    ],
)
def test_an_address_is_read(url: str, netloc: bytes, target: bytes, port: int) -> None:
    address = parse_url(url)
    assert (address.netloc, address.target, address.port) == (netloc, target, port)


async def test_closing_ends_what_is_in_flight_and_leaves_nothing_open() -> None:
    client, asked = HttpClient(), asyncio.Event()

    async def silent(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.reader.read()

    async with raw_server(silent) as server:
        asking = asyncio.create_task(post(client, server, timeout=None))
        await asked.wait()
        await client.aclose()
        with pytest.raises(ConnectionError):
            await asking
        assert not client._open
    gc.collect()  # a socket left open would be a warning, and a warning is an error

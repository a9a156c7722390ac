"""The gate's judgement: names, addresses, requests, ClientHellos and questions are read in one way, or refused."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym.broker.config import EgressConfig
from gym.broker.egress import dns
from gym.broker.egress.client_hello import read_hello
from gym.broker.egress.destinations import EgressDenied, choose_addresses
from gym.broker.egress.gateway import Gateway, check_hello
from gym.broker.egress.request_head import read_request
from gym.broker.egress.tunnel import OutsideConnection
from gym.broker.grant_check import EgressRules, fits
from gym.broker.provider import Tags
from gym.sandbox.relay import PROXY
from gym.wire.addresses import is_public, plain_host
from tests.support.sandbox_egress import BAD, GOOD, Seen, origin, resolve


def client_hello(name: str | None) -> bytes:
    """Of a real client."""
    context = ssl.create_default_context()
    context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    talk = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        talk.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    ("host", "pattern", "expected"),
    [
        ("a.example", "a.example", True),
        ("b.a.example", "*.a.example", True),
        ("a.example", "*.a.example", False),
        ("evila.example", "*.a.example", False),
        ("a.example.evil", "a.example", False),
        ("1.2.3.4", "*.3.4", False),
    ],
)
def test_a_pattern_covers_what_lies_below_it_and_nothing_that_looks_like_it(
    host: str, pattern: str, expected: bool
) -> None:
    assert fits(host, pattern) is expected


@pytest.mark.parametrize("text", ["127.1", "0x7f000001", "2130706433", "a..b", "a/b", "a b", "ä.example", "", "a\0b"])
def test_what_is_a_name_to_some_and_an_address_to_others_is_none(text: str) -> None:
    assert plain_host(text) == ""


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "172.17.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"]
    + ["::1", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:1::", "ff02::1"],
)
def test_addresses_of_this_machine_and_its_neighbours_are_not_public(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(EgressDenied, match="public internet"):
        choose_addresses([address], "a.example", ())
    with pytest.raises(EgressDenied, match="public internet"):  # nor beside a good one
        choose_addresses(["1.1.1.1", address], "a.example", ())
    assert choose_addresses([address], "a.example", ("a.example",)) == [address]


def test_a_public_address_is_one() -> None:
    assert is_public("1.1.1.1")
    assert is_public("2606:4700:4700::1111")


def test_the_name_of_a_real_client_is_read_however_its_bytes_are_cut() -> None:
    data = client_hello(GOOD)
    assert all(read_hello(data[:size]) is None for size in range(len(data)))
    found = read_hello(data)
    assert found is not None
    assert (found.name, found.encrypted) == (GOOD, False)
    body = data[5:]
    pieces = [body[at : at + 7] for at in range(0, len(body), 7)]
    records = b"".join(b"\x16\x03\x01" + len(one).to_bytes(2) + one for one in pieces)
    assert read_hello(records) == found


def test_a_hello_without_a_name_with_another_or_in_secret_is_refused() -> None:
    nameless, other = read_hello(client_hello(None)), read_hello(client_hello(BAD))
    assert nameless is not None
    assert other is not None
    for hello in (nameless, other, nameless._replace(name=GOOD, encrypted=True)):
        with pytest.raises(EgressDenied):
            check_hello(hello, GOOD)
    check_hello(nameless, "192.0.2.1")


@given(st.binary(max_size=300))
def test_no_bytes_break_the_readers(data: bytes) -> None:
    for start in (data, b"\x16\x03\x01" + len(data).to_bytes(2) + data):
        with contextlib.suppress(EgressDenied):
            read_hello(start)
    for proxied in (True, False):
        with contextlib.suppress(EgressDenied):
            read_request(data + b"\r\n\r\n", proxied=proxied)
    question = dns.read_question(data)
    assert question is None or dns.write_answer(question, dns.NO_SUCH_NAME)[:2] == data[:2]


@pytest.mark.parametrize(
    "head",
    [
        "GET http://good.example/ HTTP/1.1\r\nHost: bad.example",
        "GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\nHost: bad.example",
        "GET http://user@good.example/ HTTP/1.1\r\nHost: good.example",
        "GET http://good.example@bad.example/ HTTP/1.1",
        "GET https://good.example/ HTTP/1.1",
        "GET ftp://good.example/ HTTP/1.1",
        "GET  http://good.example/ HTTP/1.1",
        "GET http://good.example/ HTTP/2",
        "GET http://good.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
        "POST http://good.example/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
        "POST http://good.example/ HTTP/1.1\r\nTransfer-Encoding: xchunked",
        "POST http://good.example/ HTTP/1.1\r\nContent-Length: +1",
        "GET http://good.example/ HTTP/1.1\r\nHost : bad.example",
        "GET http://good.example/ HTTP/1.1\r\n folded: bad",
        "GET http://good.example/ HTTP/1.1\nHost: bad.example",
        "GET http://good.example/a\nHost:bad.example HTTP/1.1\r\nHost: good.example",
        "GET http://good.example/a\rHost:bad.example HTTP/1.1\r\nHost: good.example",
        "GET http://good.example/\xe9 HTTP/1.1\r\nHost: good.example",
        "CONNECT good.example HTTP/1.1",
        "CONNECT good.example:99999 HTTP/1.1",
        "PRI * HTTP/2.0",
    ],
)
def test_a_request_that_can_be_read_in_two_ways_is_refused(head: str) -> None:
    with pytest.raises(EgressDenied):
        read_request(head.encode() + b"\r\n\r\n", proxied=True)


def test_a_request_goes_on_with_the_host_that_was_checked_and_without_its_hops() -> None:
    head = b"GET http://Good.Example:8080/a?b#c HTTP/1.1\r\nHost: good.example:8080\r\nX: y\r\nProxy-Authorization: z"
    request = read_request(head + b"\r\nConnection: keep-alive, x\r\n\r\n", proxied=True)
    assert request.head() == b"GET /a?b HTTP/1.1\r\nhost: good.example:8080\r\nconnection: close\r\n\r\n"


def test_rules_of_the_internet_allow_every_name_and_no_name_is_none() -> None:
    assert EgressRules(everything=True).allows("any.example")
    assert not EgressRules(everything=True).allows("")
    assert not EgressRules().allows(GOOD)


async def ask(seen: Seen, hosts: tuple[str, ...], words: bytes) -> bytes:
    """What a door answers to one connection, over a real socket."""
    config = EgressConfig.model_validate({"ports": seen.ports, "private": (GOOD,)})
    door = Gateway(config, Tags("sandbox", "stack", "inst", "owner", "rollout"), EgressRules(hosts), seen.note, resolve)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = OutsideConnection(reader, writer)
        connection.abort = lambda: writer.close()  # type: ignore[method-assign]  # its last words are to arrive
        await door.serve(PROXY, connection)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        writer.write(words)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    return answer


async def test_a_name_that_leads_inside_is_refused_though_it_is_granted() -> None:
    async with origin() as there:
        seen = Seen(there.port)
        for host in ("inside.example", "metadata.example", "127.0.0.1"):
            words = b"GET http://%b:%d/ HTTP/1.1\r\n\r\n" % (host.encode(), there.port)
            answer = await ask(seen, ("*.example", "127.0.0.1"), words)
            assert answer.startswith(b"HTTP/1.1 403")
            assert b"public internet" in answer
        assert there.heads == []


async def test_a_second_request_on_the_same_connection_goes_nowhere() -> None:
    async with origin() as there:
        seen = Seen(there.port)
        one = b"GET http://%b:%d/ HTTP/1.1\r\n\r\n"
        words = one % (GOOD.encode(), there.port) + one % (BAD.encode(), there.port)
        assert (await ask(seen, (GOOD,), words)).endswith(b"hello")
        assert len(there.heads) == 1
        assert BAD.encode() not in there.heads[0]

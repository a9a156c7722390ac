"""Names that no server answers for delay no connection to another peer, and are asked for once at a time."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from gym.http import names
from gym.http.dial import TcpDial, parse_url
from gym.http.names import AT_ONCE, NameLookups


class NameServer:
    """Answers for `known`; says nothing of others until `heard` is set."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, ...]] = {"there": ("127.0.0.1",)}
        self.asked = Counter[str]()
        self.heard = threading.Event()

    def addresses(self, host: str) -> tuple[str, ...]:
        self.asked[host] += 1
        if host not in self.known:
            self.heard.wait()
            raise socket.gaierror(socket.EAI_AGAIN, "no name server answers")
        return self.known[host]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    made = NameServer()
    monkeypatch.setattr(names, "_addresses", made.addresses)
    yield made
    made.heard.set()


async def connect(dial: TcpDial, host: str, port: int) -> None:
    transport, _ = await dial.open(asyncio.Protocol, parse_url(f"http://{host}:{port}/"))
    transport.abort()


async def test_names_that_no_server_answers_for_delay_no_other_connection(server: NameServer) -> None:
    dial = TcpDial()
    listener = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        waiting = [asyncio.create_task(connect(dial, f"gone-{number % 8}", port)) for number in range(100)]
        await connect(dial, "there", port)
        await connect(dial, "127.0.0.1", port)
        assert not any(one.done() for one in waiting)
        server.heard.set()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert {str(one) for one in ended} == {f"[Errno {socket.EAI_AGAIN}] no name server answers"}
    assert server.asked == {"there": 1, **{f"gone-{number}": 1 for number in range(8)}}


async def test_who_gives_up_costs_those_who_wait_for_the_same_name_nothing(server: NameServer) -> None:
    lookups = NameLookups()
    gives_up, waits = (asyncio.create_task(lookups.find("gone")) for _ in range(2))
    while not server.asked["gone"]:
        await asyncio.sleep(0)
    gives_up.cancel()
    server.heard.set()
    with pytest.raises(socket.gaierror):
        await waits
    assert gives_up.cancelled()
    server.known["gone"] = ("127.0.0.2",)  # a new question hears what is so now
    assert await lookups.find("gone") == ("127.0.0.2",)
    assert server.asked["gone"] == 2


async def test_only_so_many_names_are_asked_for_at_once(server: NameServer) -> None:
    lookups = NameLookups(at_once=2)
    waiting = [asyncio.create_task(lookups.find(f"gone-{number}")) for number in range(5)]
    while len(server.asked) < 2:
        await asyncio.sleep(0)
    assert server.asked.total() == 2 < AT_ONCE
    server.heard.set()
    await asyncio.wait(waiting)
    assert server.asked.total() == 5


async def test_the_next_address_of_a_name_is_tried_where_the_first_refuses(server: NameServer) -> None:
    listener = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        server.known["both"] = ("127.0.0.9", "127.0.0.1")
        await connect(TcpDial(), "both", port)
        server.known["neither"] = ("127.0.0.8", "127.0.0.9")
        with pytest.raises(ConnectionRefusedError):
            await connect(TcpDial(), "neither", port)


async def test_the_systems_own_names() -> None:
    lookups = NameLookups()
    assert "127.0.0.1" in await lookups.find("localhost")
    assert await lookups.name_of("127.0.0.1") == socket.getnameinfo(("127.0.0.1", 0), socket.NI_NAMEREQD)[0]
    with pytest.raises(socket.gaierror):
        await lookups.find("no such name")
    with pytest.raises(UnicodeError):
        await lookups.find("x" * 100)

"""The open files of a process: the limit, and who waits for whom when there are few."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from gym.http.dial import Endpoint
from gym.http.open_files import KEPT, OWN, OpenFiles, raise_limit
from gym.http.pool import HttpClient, NotSent
from tests.support.raw_http import OK, Peer, always, raw_server

P = TypeVar("P", bound=asyncio.Protocol)


def room_for(connections: int, callers: int = 0) -> OpenFiles:
    """A bound that leaves so many connections beside those of the callers."""
    files, wanted = OpenFiles(), connections + callers
    limit = next(one for one in range(1, 100_000) if max(one - OWN - one // KEPT, one // 2) >= wanted)
    files.bound(limit, lambda: callers)
    return files


@asynccontextmanager
async def clients(files: OpenFiles, count: int = 1) -> AsyncIterator[list[HttpClient]]:
    made = [HttpClient(asks_health=False, files=files) for _ in range(count)]
    try:
        yield made
    finally:
        for one in made:
            await one.aclose()


class Held:
    """A server whose replies wait until they are let go."""

    def __init__(self) -> None:
        self.asked = 0
        self.go = asyncio.Event()

    async def script(self, peer: Peer) -> None:
        while await peer.request():
            self.asked += 1
            await self.go.wait()
            await peer.say(OK)


def test_a_process_takes_its_hard_limit() -> None:
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (128, 512))\n"
        "from gym.http.open_files import raise_limit\n"
        "print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["512", "512", "512"]


def test_a_limit_that_is_high_enough_stays() -> None:
    raise_limit()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_without_a_bound_there_is_always_room() -> None:
    files = OpenFiles()
    assert all(files.take() for _ in range(100_000))
    assert files.max_connections == 0


def test_some_files_are_kept_for_callers() -> None:
    files = OpenFiles()
    callers = 0
    files.bound(20_000, lambda: callers)
    assert files.max_connections == (20_000 - OWN - 1000) // 2
    callers = files.max_connections
    taken = 0
    while files.take():
        taken += 1
    assert taken in (files.max_connections, files.max_connections + 1)
    assert callers + taken <= 20_000 - OWN - 1000


async def test_more_calls_than_files_wait_and_are_all_answered() -> None:
    files = room_for(2)
    async with raw_server(always(OK)) as server, clients(files) as (client,):
        replies = await asyncio.gather(*(client.request("POST", server.url, timeout=60) for _ in range(20)))
        assert [one.body for one in replies] == [b"ok"] * 20
        assert server.connections == 2
    assert not files.is_awaited


async def test_an_idle_connection_makes_way_for_another_peer() -> None:
    files = room_for(1)
    async with raw_server(always(OK)) as one, raw_server(always(OK)) as other, clients(files, 2) as (first, second):
        for client, server in ((first, one), (second, other), (first, one), (first, other)):
            assert (await client.request("POST", server.url, timeout=60)).status == 200
        assert (one.connections, other.connections) == (2, 2)
        assert files.taken <= 1


async def test_a_caller_that_comes_takes_the_place_of_an_idle_connection() -> None:
    callers = 0
    files = OpenFiles()
    files.bound(4, lambda: callers)  # two connections in all
    async with raw_server(always(OK)) as server, clients(files) as (client,):
        await client.request("POST", server.url, timeout=60)
        callers = 1
        files.make_room()
        await turns()
        assert files.taken == 0


async def test_who_waits_too_long_has_sent_nothing() -> None:
    held = Held()
    async with raw_server(held.script) as server, clients(room_for(1)) as (client,):
        first = asyncio.ensure_future(client.request("POST", server.url, timeout=60))
        await until_asked(held, 1)
        with pytest.raises(NotSent, match="no other file could be opened"):
            await client.request("POST", server.url, timeout=0.01)
        held.go.set()
        assert (await first).status == 200
        assert held.asked == 1


async def test_who_is_cancelled_while_it_waits_is_in_no_ones_way() -> None:
    held, files = Held(), room_for(1)
    async with raw_server(held.script) as server, clients(files) as (client,):
        first = asyncio.ensure_future(client.request("POST", server.url, timeout=60))
        await until_asked(held, 1)
        waiting = [asyncio.ensure_future(client.request("POST", server.url, timeout=60)) for _ in range(3)]
        await turns()
        waiting[0].cancel()
        await turns()
        waiting[1].cancel()
        held.go.set()
        assert (await first).status == (await waiting[2]).status == 200
    assert not files.is_awaited


async def test_those_who_came_first_are_first() -> None:
    held, files, order = Held(), room_for(1), list[int]()
    async with raw_server(held.script) as server, clients(files) as (client,):

        async def ask(number: int) -> None:
            await client.request("POST", server.url, timeout=60)
            order.append(number)

        async with asyncio.TaskGroup() as group:
            for number in range(6):
                group.create_task(ask(number))
                await turns()
            held.go.set()
    assert order == list(range(6))


async def test_connections_are_opened_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym.http.dial.DIALS_AT_ONCE", 3)
    async with raw_server(always(OK)) as server, clients(OpenFiles()) as (client,):
        dialled = Counting(client)
        await asyncio.gather(*(client.request("POST", server.url, timeout=60) for _ in range(12)))
        assert server.connections <= 12
    assert dialled.most == 3


async def test_a_peer_that_takes_no_connection_keeps_no_one_waiting_behind_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gym.http.dial.DIALS_AT_ONCE", 1)
    client = HttpClient(asks_health=False, connect_seconds=0.05, dial=Hanging(), files=OpenFiles())
    ends = await asyncio.gather(
        *(client.request("POST", "http://127.0.0.1:9", timeout=60) for _ in range(5)), return_exceptions=True
    )
    assert all(isinstance(one, NotSent) for one in ends), ends
    await client.aclose()


class Counting:
    """How many connections are being opened at once."""

    def __init__(self, client: HttpClient) -> None:
        self.now = self.most = 0
        self._dial = client._dial
        client._dial = self

    async def open(self, make: Callable[[], P], address: Endpoint) -> tuple[Any, P]:
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await self._dial.open(make, address)
        finally:
            self.now -= 1

    def name(self, address: Endpoint) -> str:
        return self._dial.name(address)


class Hanging:
    """No connection is ever made."""

    async def open(self, make: Callable[[], P], address: Endpoint) -> tuple[Any, P]:
        never: asyncio.Future[tuple[Any, P]] = asyncio.get_running_loop().create_future()
        return await never

    def name(self, address: Endpoint) -> str:
        return "a peer"


async def until_asked(held: Held, count: int) -> None:
    async with asyncio.timeout(60):
        while held.asked < count:
            await asyncio.sleep(0)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)

"""A caller that awaits a reply through the router learns from the stack alone that the replica has vanished."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import orjson
import pytest

from gym.collect import agent_replicas
from gym.collect.agent_replicas import AgentReplica, VanishedCheck
from gym.http.peer_health import PeerVanished
from gym.http.pool import HttpClient, Reply
from tests.support.raw_http import Peer, raw_server

MAX_SECONDS = 60.0


@dataclass
class Stack:
    """What it says of its replicas; it never answers a rollout."""

    vanished: list[str] = field(default_factory=list)
    status: int = 200
    asked: int = 0

    async def script(self, peer: Peer) -> None:
        while b"/vanished" in await peer.request():
            self.asked += 1
            body = orjson.dumps({"vanished": self.vanished})
            await peer.say(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (self.status, len(body), body))
        await asyncio.sleep(MAX_SECONDS)


@dataclass
class Bench:
    stack: Stack
    url: str
    http: HttpClient
    vanished_check: VanishedCheck

    def wait_at(self, replica: AgentReplica) -> asyncio.Task[Reply]:
        return asyncio.ensure_future(replica.wait_for(self.http.request("POST", replica.url + "/run", timeout=50)))


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CHECK_SECONDS", "SUSPECT_SECONDS", "SURE_AFTER"):
        monkeypatch.setattr(agent_replicas, name, getattr(agent_replicas, name) / 10)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    stack, http = Stack(), HttpClient(asks_health=False)
    async with raw_server(stack.script) as server:
        yield Bench(stack, server.url, http, VanishedCheck(http, server.url + "/vanished", ()))
        await http.aclose()


@asynccontextmanager
async def looking(bench: Bench, *there: AgentReplica) -> AsyncIterator[None]:
    async def look() -> None:
        while True:
            await asyncio.sleep(await bench.vanished_check.check(there))

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(MAX_SECONDS):
        while not holds():
            await asyncio.sleep(0.01)


async def test_replies_of_a_replica_that_vanished_are_given_up_and_those_of_others_are_not(bench: Bench) -> None:
    gone, healthy, direct = (AgentReplica(bench.url, id=id) for id in ("agent-1", "agent-2", ""))
    waiting, others = [bench.wait_at(gone) for _ in range(5)], [bench.wait_at(healthy), bench.wait_at(direct)]
    async with looking(bench, gone, healthy, direct):
        await until(lambda: bench.stack.asked >= 3)
        assert not any(one.done() for one in waiting)
        bench.stack.vanished = ["agent-1"]
        for end in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(end, PeerVanished)
        assert gone.vanished
        assert not any(one.done() for one in others)
        bench.stack.vanished = []
        await until(lambda: not gone.vanished)
    for one in others:
        one.cancel()


async def test_what_is_reported_once_only_ends_nothing(bench: Bench) -> None:
    """A console that was cut off itself, and is back."""
    replica = AgentReplica(bench.url, id="agent-1")
    waiting = bench.wait_at(replica)
    async with looking(bench, replica):
        for _ in range(3):
            bench.stack.vanished = ["agent-1"]
            asked = bench.stack.asked
            await until(lambda: bench.stack.asked > asked)  # noqa: B023
            bench.stack.vanished = []
            await until(lambda: bench.stack.asked > asked + 2)  # noqa: B023
    assert not waiting.done()
    waiting.cancel()


async def test_a_stack_is_asked_only_while_replies_are_awaited_and_an_older_one_once(bench: Bench) -> None:
    replica, direct = AgentReplica(bench.url, id="agent-1"), AgentReplica(bench.url)
    waiting = bench.wait_at(direct)
    for _ in range(3):
        await bench.vanished_check.check([replica, direct])
    assert bench.stack.asked == 0
    bench.stack.status = 404
    also = bench.wait_at(replica)
    await until(lambda: bool(replica.awaited))
    for _ in range(3):
        await bench.vanished_check.check([replica, direct])
    assert bench.stack.asked == 1
    waiting.cancel()
    also.cancel()


async def test_a_timeout_of_the_call_stays_one(bench: Bench) -> None:
    replica = AgentReplica(bench.url, id="agent-1")
    with pytest.raises(TimeoutError):
        await replica.wait_for(bench.http.request("POST", bench.url + "/run", timeout=2))
    assert not replica.awaited

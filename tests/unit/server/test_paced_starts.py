"""Requests that come all at once begin a few in each turn of the loop, and a question after health never waits."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson
import uvicorn
import uvloop

from gym.server import Route, Server
from gym.server.asgi import Answer, Call
from gym.server.one_write import OneWriteProtocol
from gym.server.paced_starts import EACH_TURN, PacedStarts
from gym.server.serve import ACCEPTED_EACH_TURN, _accepting
from gym.server.testing import running

ASKED = b"POST /say HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"


class Counted(Server):
    server_type = "responses_api_agents"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.begun = 0

    def routes(self) -> list[Route]:
        return [Route("/say", self.say)]

    async def say(self, call: Call) -> Answer:
        self.begun += 1
        return Answer(b"{}")

    def health(self) -> dict[str, Any]:
        return {"begun": self.begun}


class StandingLoop:
    """A loop that the test turns."""

    def __init__(self) -> None:
        self.soon: list[Callable[..., object]] = []

    def call_soon(self, function: Callable[..., object]) -> None:
        self.soon.append(function)

    def turn(self) -> None:
        ready, self.soon = self.soon, []
        for function in ready:
            function()


def test_so_many_begin_in_a_turn_and_the_others_in_their_order_later() -> None:
    loop = StandingLoop()
    starts = PacedStarts(loop)  # type: ignore[arg-type]
    begun: list[int] = []

    def come(number: int) -> None:
        if starts.may_begin():
            begun.append(number)
        else:
            starts.begin_later(lambda: begun.append(number))

    for number in range(3 * EACH_TURN + 1):
        come(number)
    assert begun == list(range(EACH_TURN))
    for done in (2, 3):
        loop.turn()
        assert len(begun) == done * EACH_TURN
    come(-1)  # behind the one that still waits
    loop.turn()
    assert begun == [*range(3 * EACH_TURN + 1), -1]
    assert not loop.soon
    assert [starts.may_begin() for _ in range(EACH_TURN + 1)] == [True] * EACH_TURN + [False]
    loop.turn()
    assert starts.may_begin()


def test_requests_that_come_at_once_are_all_answered() -> None:
    async def main() -> int:
        app = Counted.app({}, name="counted")
        async with asyncio.timeout(300), running(app) as url:
            port = int(url.rpartition(":")[2])
            peers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
            for _ in range(5):
                for _, writer in peers:
                    writer.write(ASKED)
                for reader, _ in peers:
                    assert b"200 OK" in await reader.readuntil(b"\r\n\r\n{}")
            for _, writer in peers:
                writer.close()
            server = app.server
            assert isinstance(server, Counted)
            return server.begun

    assert uvloop.run(main()) == 1000


def test_health_is_answered_before_requests_that_came_first() -> None:
    """Over pairs of sockets, whose bytes are there as soon as they are sent: all of them are read in one turn."""

    async def main() -> int:
        app, loop = Counted.app({}, name="counted"), asyncio.get_running_loop()
        config = uvicorn.Config(app, http=OneWriteProtocol, ws="none", lifespan="off", log_config=None)
        config.load()
        state = uvicorn.Server(config).server_state

        async def connect() -> socket.socket:
            ours, theirs = socket.socketpair()
            await loop.connect_accepted_socket(
                lambda: OneWriteProtocol(config=config, server_state=state, app_state={}), theirs
            )
            return ours

        async with asyncio.timeout(300), running(app):
            peers = [await connect() for _ in range(10 * EACH_TURN)]
            health = await connect()
            for peer in peers:
                peer.sendall(ASKED)
            health.sendall(HEALTH)
            reader, writer = await asyncio.open_connection(sock=health)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            answer = orjson.loads(await reader.readexactly(length))
            writer.close()
            for peer in peers:
                peer.close()
            return int(answer["begun"])

    assert uvloop.run(main()) <= 2 * EACH_TURN


def test_many_callers_are_accepted_in_each_turn() -> None:
    """uvloop accepts one for each listening socket: a thousand callers were a thousand turns."""
    callers = 4 * ACCEPTED_EACH_TURN

    async def main() -> int:
        loop = asyncio.get_running_loop()
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        address, turns, made = listener.getsockname(), 0, list[int]()

        class Caller(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made.append(turns)

        servers = [await loop.create_server(Caller, sock=one, backlog=4096) for one in _accepting(listener)]
        waiting = [socket.create_connection(address) for _ in range(callers)]
        async with asyncio.timeout(60):
            while len(made) < callers:
                turns += 1
                await asyncio.sleep(0)
        for caller in waiting:
            caller.close()
        for server in servers:
            server.close()
        return max(Counter(made).values())

    assert uvloop.run(main()) > 1

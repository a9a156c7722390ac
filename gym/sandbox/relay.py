"""The outer side of a relay: connections and datagrams of one sandbox, over the pipes of one command in it.

The broker's egress gate holds one; so does an agent whose program inside calls a model (`gym.sandbox.inside_port`).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from gym.wire.failures import RolloutError

HELPER: Final = "/.gym/helper"
HEAD: Final = struct.Struct("<BII")  # type, connection, length
WINDOW: Final = 131072  # bytes of one connection that may be under way each way
MAX_CONNECTIONS: Final = 64
MAX_FRAME: Final = 65536
MAX_WAITING: Final = MAX_CONNECTIONS * WINDOW + (1 << 20)  # for a relay that reads nothing
PIECE: Final = 16384
LISTENING, OPEN, DATA, END, RESET, TAKEN, DATAGRAM = b"LODERWU"

ADDRESS: Final = "127.9.9.9"  # loopback, out of the way of what a task itself listens on at 127.0.0.1
PROXY_PORT: Final = 3128
LISTEN_PORTS: Final = (("tcp", PROXY_PORT), ("tcp", 80), ("tcp", 443), ("tcp", 53), ("udp", 53))
LISTEN_PORT_BYTES: Final = tuple(bytes([number]) for number in range(len(LISTEN_PORTS)))
PROXY, HTTP, TLS, DNS_STREAM, DNS = range(5)


class ConnectionLost(ConnectionError):
    """One side of a connection went away."""


class RelayCommand(Protocol):
    """The command inside; what it writes is fed to `Relay.take`."""

    async def write(self, data: bytes) -> None: ...

    async def wait(self) -> object: ...


class RelayFrame(NamedTuple):
    type: int
    connection: int
    body: bytes


class RelayHandler(Protocol):
    """Handles what a relay receives."""

    def accept(self, port_index: int, connection: RelayConnection) -> None: ...

    def ask(self, port_index: int, data: bytes, answer: Callable[[bytes], None]) -> None: ...


def relay_argv(address: str, ports: Sequence[tuple[str, int]], helper: str = HELPER) -> tuple[str, ...]:
    return (helper, "--relay", address, *(f"{kind}:{port}" for kind, port in ports))


class Relay:
    """Feed it by `take`; `run` carries what goes the other way, until its command ends."""

    def __init__(self, served: RelayHandler) -> None:
        self._served = served
        self._buffer = bytearray()
        self._connections: dict[int, RelayConnection] = {}
        self._outgoing = bytearray()
        self._more = asyncio.Event()
        self._broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.listening: asyncio.Future[tuple[bool, ...]] = asyncio.get_running_loop().create_future()

    def take(self, stream: int, data: bytes) -> None:
        """What its command wrote. Called by the channel; never waits, for windows bound what may come. A process in
        the sandbox may have taken the relay over, so the first invalid frame ends it."""
        if stream != 1 or self._broken.done():
            return
        self._buffer += data
        for frame in self._frames():
            self._obey(frame)

    async def run(self, process: RelayCommand) -> None:
        writing = asyncio.create_task(self._write(process))
        ending = asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait((ending, self._broken), return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                raise RolloutError("sandbox", f"the relay in the sandbox {self._broken.result()}")
            ending.result()
        finally:
            self._break("has ended")
            for task in (writing, ending):
                task.cancel()
            await asyncio.gather(writing, ending, return_exceptions=True)
            self._buffer.clear()
            self._outgoing.clear()
            for connection in tuple(self._connections.values()):
                connection.lose()
            if not self.listening.done():
                self.listening.cancel()

    def send(self, type: int, connection: int, body: bytes = b"") -> None:
        if self._broken.done():
            return
        self._outgoing += HEAD.pack(type, connection, len(body)) + body
        self._more.set()
        if len(self._outgoing) > MAX_WAITING:
            self._break("takes nothing of what it is sent")

    def forget(self, connection: int) -> None:
        self._connections.pop(connection, None)

    async def _write(self, process: RelayCommand) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            while self._outgoing:
                piece = bytes(self._outgoing)
                self._outgoing.clear()
                await process.write(piece)

    def _frames(self) -> Iterator[RelayFrame]:
        while len(self._buffer) >= HEAD.size:
            type, connection, size = HEAD.unpack_from(self._buffer)
            if size > MAX_FRAME:
                self._break(f"sent a frame of {size} bytes")
            if self._broken.done() or len(self._buffer) < HEAD.size + size:
                return
            body = bytes(self._buffer[HEAD.size : HEAD.size + size])
            del self._buffer[: HEAD.size + size]
            yield RelayFrame(type, connection, body)

    def _break(self, why: str) -> None:
        if not self._broken.done():
            self._broken.set_result(why)

    def _obey(self, frame: RelayFrame) -> None:
        connection = self._connections.get(frame.connection)
        if frame.type == LISTENING and not self.listening.done():
            self.listening.set_result(tuple(map(bool, frame.body)))
        elif (
            frame.type == OPEN
            and connection is None
            and len(self._connections) < MAX_CONNECTIONS
            and frame.body[:1] in LISTEN_PORT_BYTES
        ):
            connection = self._connections[frame.connection] = RelayConnection(self, frame.connection)
            self._served.accept(frame.body[0], connection)
        elif frame.type == DATAGRAM and frame.body:
            self._served.ask(frame.body[0], frame.body[1:], lambda data: self.send(DATAGRAM, frame.connection, data))
        elif connection is not None:
            connection.obey(frame)


class RelayConnection:
    """One TCP connection of a process in the sandbox."""

    def __init__(self, relay: Relay, number: int) -> None:
        self._relay = relay
        self._number = number
        self._incoming = bytearray()
        self._room = WINDOW
        self._ended = False  # no more data will come
        self._gone = False
        self._news = asyncio.Event()

    async def read(self) -> bytes:
        """b"" once the other side has closed its direction."""
        while not self._incoming:
            if self._gone:
                raise ConnectionLost("the sandbox closed the connection")
            if self._ended:
                return b""
            await self._wait()
        data = bytes(self._incoming)
        self._incoming.clear()
        self._relay.send(TAKEN, self._number, struct.pack("<I", len(data)))
        return data

    async def write(self, data: bytes) -> None:
        """Returns when all of it is under way."""
        view = memoryview(data)
        while view:
            if self._gone:
                raise ConnectionLost("the sandbox closed the connection")
            if self._room <= 0:
                await self._wait()
                continue
            piece = view[: min(PIECE, self._room)]
            self._room -= len(piece)
            self._relay.send(DATA, self._number, bytes(piece))
            view = view[len(piece) :]

    async def flush(self) -> None:
        """Returns when everything written was taken, or the connection is closed."""
        while self._room < WINDOW and not self._gone:
            await self._wait()

    async def end(self) -> None:
        if not self._gone:
            self._relay.send(END, self._number)

    def abort(self) -> None:
        if not self._gone:
            self._relay.send(RESET, self._number)
        self.lose()

    def lose(self) -> None:
        self._gone = True
        self._news.set()
        self._relay.forget(self._number)

    def obey(self, frame: RelayFrame) -> None:
        if frame.type == DATA:
            self._incoming += frame.body
            if len(self._incoming) > WINDOW:  # no relay of ours does that
                self.abort()
        elif frame.type == END:
            self._ended = True
        elif frame.type == TAKEN and len(frame.body) == 4:
            self._room = min(WINDOW, self._room + struct.unpack("<I", frame.body)[0])
        elif frame.type == RESET:
            self.lose()
        self._news.set()

    async def _wait(self) -> None:
        self._news.clear()
        await self._news.wait()

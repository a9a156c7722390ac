"""A peer that was taken over says whatever it likes: what it sends is bounded in memory, and overstepping ends it."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import tarfile
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gym.broker.channel import frames
from gym.broker.channel.channel import PipeChannel, open_channel
from gym.broker.errors import RequestRefused
from gym.broker.providers.docker.hijack import FRAME, Attached
from gym.broker.providers.upgraded_pipe import KEPT_WORDS
from gym.broker.routes.command_routes import UnsentOutput
from gym.broker.routes.terminal_routes import UNREAD, TerminalOutput
from gym.broker.shells import BoundedOutput
from gym.broker.tar import BLOCK, TarReader, read_entries
from gym.http.websocket import BINARY, WebSocketProtocol, encode
from gym.sandbox.relay import DATA, HEAD, MAX_WAITING, OPEN, RESET, Relay, RelayConnection
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest

PIECE = bytes(frames.MAX)
Say = Callable[[int, bytes], Awaitable[None]]


class Hostile:
    """Greets as a helper does, then says what the test says, over a real socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.closed = asyncio.create_task(self._swallow())

    async def _swallow(self) -> None:
        while await self._reader.read(1 << 16):
            pass

    async def say(self, kind: int, body: bytes, stream: int = 1) -> None:
        try:
            self._writer.write(frames.encode_frame(kind, stream, body))
            await self._writer.drain()
        except OSError:
            pass

    async def flood(self, kind: int, body: bytes, most: int) -> int:
        """Until it is closed, or so many frames went."""
        for count in range(most):
            await asyncio.sleep(0)
            if self.closed.done() or self._writer.transport.is_closing():
                return count
            await self.say(kind, body)
        return most

    def close(self) -> None:
        self.closed.cancel()
        self._writer.transport.abort()


@pytest.fixture
async def peers() -> AsyncIterator[tuple[PipeChannel, Hostile]]:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    their_reader, their_writer = await asyncio.open_unix_connection(sock=theirs)
    opening = asyncio.create_task(open_channel(reader, writer))
    hello = await their_reader.readexactly(frames.HEAD.size + 17 + 1)
    body = frames.HELLO_BODY.pack(hello[frames.HEAD.size :][:16], frames.PROTOCOL, 1, 0, 0, 0)
    hostile = Hostile(their_reader, their_writer)
    await hostile.say(frames.HELLO_BACK, body, 0)
    channel = await opening
    yield channel, hostile
    await channel.close()
    hostile.close()


TAIL = frames.TAIL_HEAD.pack(0, 0, 0) + PIECE[:32768]


@pytest.mark.parametrize(("kind", "body"), [(frames.STDOUT, PIECE), (frames.STDERR, PIECE), (frames.TAIL, TAIL)])
async def test_a_helper_that_sends_more_output_than_is_kept_loses_its_channel(
    peers: tuple[PipeChannel, Hostile], kind: int, body: bytes
) -> None:
    channel, hostile = peers
    waiting = asyncio.create_task(channel.exec(ExecRequest(argv=("x",), max_output=1 << 20)))
    await asyncio.sleep(0)
    assert await hostile.flood(kind, body, 4000) < 4000
    with pytest.raises(RolloutError, match="more output than it may"):
        await waiting
    assert channel.closed


async def test_a_helper_that_sends_live_output_without_being_given_room_loses_its_channel(
    peers: tuple[PipeChannel, Hostile],
) -> None:
    channel, hostile = peers
    heard: list[int] = []
    starting = asyncio.create_task(channel.start(ExecRequest(argv=("x",)), lambda _, data: heard.append(len(data))))
    await asyncio.sleep(0)
    await hostile.say(frames.STARTED, struct.pack("<i", 7))
    process = await starting
    process.hold()
    assert await hostile.flood(frames.STDOUT, PIECE, 4000) < 4000
    await channel.wait_closed()
    assert sum(heard) <= frames.WINDOW


async def test_a_helper_that_sends_more_of_a_file_than_was_asked_for_loses_its_channel(
    peers: tuple[PipeChannel, Hostile],
) -> None:
    channel, hostile = peers
    waiting = asyncio.create_task(channel.read_file("/x", length=10))
    await asyncio.sleep(0)
    assert await hostile.flood(frames.STDOUT, PIECE[:1000], 4000) < 4000
    with pytest.raises(RolloutError, match="more of a file than it may"):
        await waiting


@pytest.mark.parametrize(
    "frame",
    [
        frames.HEAD.pack(frames.STDOUT, 1, 0xFFFFFFFF),
        frames.encode_frame(frames.HELLO_BACK, 0, frames.HELLO_BODY.pack(bytes(16), frames.PROTOCOL, 1, 0, 0, 1 << 31)),
        frames.encode_frame(frames.HELLO_BACK, 0, b"short"),
        frames.encode_frame(frames.RESULT, 1, b"short"),
        frames.encode_frame(frames.TAIL, 1, frames.TAIL_HEAD.pack(200, 0, 0)),
    ],
)
async def test_a_frame_that_makes_no_sense_ends_the_channel(peers: tuple[PipeChannel, Hostile], frame: bytes) -> None:
    channel, hostile = peers
    waiting = asyncio.create_task(channel.exec(ExecRequest(argv=("x",), max_output=1000)))
    await asyncio.sleep(0)
    hostile._writer.write(frame)
    assert "invalid frames" in await asyncio.wait_for(channel.wait_closed(), 120)
    with pytest.raises(RolloutError):
        await waiting


class Door:
    def __init__(self) -> None:
        self.accepted: list[RelayConnection] = []

    def accept(self, door: int, connection: RelayConnection) -> None:
        self.accepted.append(connection)

    def ask(self, door: int, data: bytes, answer: Callable[[bytes], None]) -> None:
        answer(bytes(500))


class Deaf:
    """A relay's command that goes on and reads nothing."""

    running = True

    async def wait(self) -> None:
        await asyncio.Event().wait()

    async def write(self, data: bytes) -> None:
        await asyncio.Event().wait()


async def test_a_relay_whose_frame_has_no_end_is_ended_and_none_of_it_is_kept() -> None:
    relay = Relay(Door())
    running = asyncio.create_task(relay.run(Deaf()))
    await asyncio.sleep(0)
    relay.take(1, HEAD.pack(DATA, 1, 0xFFFFFFFF))
    for _ in range(1000):
        relay.take(1, PIECE)
    assert len(relay._buffer) < 1 << 20
    with pytest.raises(RolloutError, match="sent a frame of 4294967295 bytes"):
        await asyncio.wait_for(running, 120)


async def test_a_relay_that_asks_and_never_listens_is_ended() -> None:
    relay = Relay(Door())
    running = asyncio.create_task(relay.run(Deaf()))
    await asyncio.sleep(0)
    question = HEAD.pack(ord("U"), 1, 2) + b"\x04?"
    for _ in range(40):
        relay.take(1, question * 1000)
        await asyncio.sleep(0)
    assert len(relay._outgoing) <= MAX_WAITING + 1000
    with pytest.raises(RolloutError, match="takes nothing"):
        await asyncio.wait_for(running, 120)


async def test_a_relay_that_opens_without_saying_where_does_no_harm() -> None:
    door = Door()
    relay = Relay(door)
    for number in range(10_000):
        relay.take(1, HEAD.pack(OPEN, number, 0) + HEAD.pack(OPEN, number, 1) + b"\xff" + HEAD.pack(RESET, number, 0))
    assert not door.accepted
    assert not relay._connections


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_output_that_comes_byte_by_byte_takes_no_more_than_its_bytes() -> None:
    kept, heard = BoundedOutput(200_000), UnsentOutput()

    def bytewise() -> None:
        for _ in range(400_000):
            kept.add(b"x")
        for _ in range(200_000):
            heard.put(1, b"x")

    assert peak(bytewise) < 2 << 20
    output = kept.output()
    assert (len(output.head), len(output.tail), output.dropped) == (100_000, 100_000, 200_000)


async def test_a_screen_without_a_reader_holds_the_command_however_small_its_pieces() -> None:
    screen, held = TerminalOutput(), []
    screen.process = SimpleNamespace(hold=lambda: held.append(1), release=lambda: None)
    for _ in range(UNREAD // 64):
        screen.heard(1, b"x")
    assert held


class Transport:
    def __init__(self) -> None:
        self.paused = False

    def pause_reading(self) -> None:
        self.paused = True

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


async def test_a_socket_of_messages_without_content_is_not_read_for_ever() -> None:
    state = SimpleNamespace(connections=set(), tasks=set())

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    protocol = WebSocketProtocol(SimpleNamespace(loaded_app=app), state, {})
    transport = Transport()
    protocol.connection_made(transport)  # type: ignore[arg-type]
    protocol.data_received(b"GET /x HTTP/1.1\r\nsec-websocket-key: x\r\n\r\n")
    count = 0
    while not transport.paused and count < 10_000:
        protocol.data_received(encode(BINARY, b"", masked=True))
        count += 1
    assert count < 10_000
    for task in state.tasks:
        task.cancel()


async def test_words_of_a_container_are_kept_to_the_last_of_them() -> None:
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    _, attached = await loop.create_unix_connection(lambda: Attached(loop), sock=ours)
    _, writer = await asyncio.open_unix_connection(sock=theirs)
    writer.write(b"HTTP/1.1 101 Switching\r\n\r\n")
    for _ in range(64):
        writer.write(FRAME.pack(2, len(PIECE)) + PIECE)
        await writer.drain()
    writer.write(FRAME.pack(1, 3) + b"end")
    assert await asyncio.wait_for(attached.reader.readexactly(3), 120) == b"end"
    assert sys.getsizeof(attached._words) < 4 * KEPT_WORDS + len(PIECE) * 2
    attached.close()
    writer.close()


async def test_a_head_of_an_engine_that_never_ends_closes_its_connection() -> None:
    ours, theirs = socket.socketpair()
    loop = asyncio.get_running_loop()
    _, attached = await loop.create_unix_connection(lambda: Attached(loop), sock=ours)
    _, writer = await asyncio.open_unix_connection(sock=theirs)
    for _ in range(64):
        writer.write(b"x: " + PIECE)
    with pytest.raises(EOFError):
        await asyncio.wait_for(attached.answered(), 120)
    writer.transport.abort()


async def test_a_tar_of_headers_alone_is_refused_before_it_is_held() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        while True:
            info = tarfile.TarInfo("x")
            info.type, info.size = b"x", BLOCK
            yield info.tobuf() + bytes(BLOCK)

    with pytest.raises(RequestRefused, match=r"without end|broken extended"):
        async for _ in read_entries(TarReader(chunks())):
            pass

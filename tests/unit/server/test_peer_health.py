"""Who lets a reply wait is asked how it is: once for all waiters, and never for a reply that comes soon."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gym.http import peer_health
from gym.http.keepalive import heard_within, keep_alive, limit_unacknowledged, make_live_socket
from gym.http.peer_health import PeerHealth, PeerVanished, SilentPeer
from gym.http.pool import HttpClient, NotSent
from gym.http.streams import exchange
from gym.server.replicas import Peers
from gym.wire.discovery import Discovery, InstanceView, ReplicaView
from tests.support.raw_http import OK, Peer, RawServer, raw_server

DEADLINE = 120.0

# Answers /healthz and /soon at once, /never not at all; /block keeps its event loop busy until a file is there.
SERVER = """
import asyncio, os, sys, time

async def serve(reader, writer):
    try:
        while True:
            path = (await reader.readuntil(b"\\r\\n\\r\\n")).split()[1]
            if path == b"/never":
                await asyncio.sleep(10000)
            if path == b"/block":
                while not os.path.exists(sys.argv[1]):
                    time.sleep(0.01)
            writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok")
    except (OSError, EOFError):
        pass

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@dataclass
class Process:
    pid: int
    url: str
    unblock: Path


@pytest.fixture
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server that can be stopped."""
    file = tmp_path_factory.mktemp("far") / "unblock"
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(file)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Process(process.pid, f"http://127.0.0.1:{process.stdout.readline().strip()}", file)
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    made = HttpClient()
    yield made
    await made.aclose()


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything ten times as soon."""
    hurry(monkeypatch, 10)


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times as soon: for a peer that has to be heard in between, on however busy a machine."""
    hurry(monkeypatch, 4)


def hurry(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    for name in ("LOOK_SECONDS", "ASK_AFTER", "ASK_EVERY", "SILENT_SECONDS", "UNREACHED_SECONDS", "RETURN_EVERY"):
        monkeypatch.setattr(peer_health, name, getattr(peer_health, name) / times)


def ask(client: HttpClient, url: str) -> asyncio.Task[object]:
    return asyncio.ensure_future(client.request("POST", url, timeout=DEADLINE))


async def test_a_stopped_server_that_answered_before_is_given_up(client: HttpClient, far: Process, fast: None) -> None:
    waiting = [ask(client, far.url + "/never") for _ in range(5)]
    await until(lambda: client.health.questions >= 2)  # it answers, so it may take as long as it likes
    os.kill(far.pid, signal.SIGSTOP)
    for end in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(end, PeerVanished)
        assert "/healthz" in str(end)


async def test_a_server_of_the_sdk_is_given_up_though_it_was_stopped_before_anybody_asked(
    client: HttpClient, far: Process, fast: None
) -> None:
    client.expect_health(far.url)
    os.kill(far.pid, signal.SIGSTOP)
    with pytest.raises(PeerVanished):
        await ask(client, far.url + "/never")


async def test_one_that_was_given_up_is_left_alone_until_it_answers_again(
    client: HttpClient, far: Process, fast: None
) -> None:
    client.expect_health(far.url)
    os.kill(far.pid, signal.SIGSTOP)
    with pytest.raises(PeerVanished):
        await ask(client, far.url + "/never")
    assert client.is_lost(far.url)
    with pytest.raises(NotSent, match="has not answered since"):
        await ask(client, far.url + "/soon")
    os.kill(far.pid, signal.SIGCONT)
    await until(lambda: not client.is_lost(far.url))
    assert (await client.request("GET", far.url + "/soon", timeout=DEADLINE)).body == b"ok"


async def test_a_stream_may_be_silent_as_long_as_its_server_answers(
    client: HttpClient, far: Process, faster: None
) -> None:
    """A command in a sandbox that writes nothing; then its broker is stopped."""

    async def read() -> None:
        async with exchange("POST", far.url + "/never", (), health=client.health) as incoming:
            await incoming.whole()

    waiting = asyncio.ensure_future(read())
    await until(lambda: client.health.questions > 2 * peer_health.SILENT_SECONDS / peer_health.ASK_EVERY)
    assert not waiting.done()
    os.kill(far.pid, signal.SIGSTOP)
    with pytest.raises(PeerVanished):
        await waiting


async def test_a_server_of_one_thread_that_never_answered_while_it_worked_is_waited_for(
    client: HttpClient, far: Process, fast: None
) -> None:
    """It accepts and says nothing for much longer than a stopped one of ours may."""
    waiting = ask(client, far.url + "/block")
    await until(lambda: client.health.questions > 3 * peer_health.SILENT_SECONDS / peer_health.ASK_EVERY)
    far.unblock.touch()
    assert await waiting


async def test_a_loop_that_is_blocked_for_less_than_a_silence_is_waited_for(client: HttpClient, far: Process) -> None:
    """With the real times: two questions have gone unanswered when it goes on."""
    client.expect_health(far.url)
    waiting = ask(client, far.url + "/block")
    await until(lambda: client.health.questions >= 3)
    far.unblock.touch()
    assert await waiting
    assert not client.is_lost(far.url)


async def test_time_in_which_the_client_itself_was_stopped_is_not_silence_of_its_peer(
    client: HttpClient, fast: None
) -> None:
    """It was asked, and the answer lay there unread: a laptop that slept, `docker pause`, a blocked loop."""
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        if b"/healthz" in await peer.request():
            asked.set()
            await may_answer.wait()
            await peer.say(OK)
        else:
            await asyncio.sleep(DEADLINE)

    async with raw_server(script) as server:
        client.expect_health(server.url)
        waiting = ask(client, server.url + "/never")
        await asked.wait()
        time.sleep(2 * peer_health.SILENT_SECONDS)  # noqa: ASYNC251 (the pause)
        may_answer.set()
        questions = client.health.questions
        await until(lambda: client.health.questions > questions + 2)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_everybody_who_waits_for_a_peer_shares_one_question(client: HttpClient, fast: None) -> None:
    asked = 0

    async def script(peer: Peer) -> None:
        nonlocal asked
        if b"/healthz" in await peer.request():
            asked += 1
            await peer.say(OK)
        await asyncio.sleep(DEADLINE)

    async with raw_server(script) as server:
        waiting = [ask(client, server.url + "/never") for _ in range(50)]
        await until(lambda: server.connections >= 50 and asked >= 3)
        assert client.health.questions - asked <= 1
        assert server.connections <= 50 + asked + 1
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_no_peer_is_asked_for_a_reply_that_comes_soon(client: HttpClient, far: Process) -> None:
    """Two looks around pass while short calls follow one another."""
    loop = asyncio.get_running_loop()
    ends, longest = loop.time() + 2.5 * peer_health.LOOK_SECONDS, 0.0
    while loop.time() < ends:
        began = loop.time()
        await client.request("GET", far.url + "/soon", timeout=DEADLINE)
        longest = max(longest, loop.time() - began)
    assert client.health.questions == 0 or longest >= peer_health.ASK_AFTER  # on a machine where it came late


async def test_a_server_that_drains_refuses_new_connections_and_is_waited_for(client: HttpClient, fast: None) -> None:
    """What it has begun it finishes, though it cannot be asked how it is."""
    finish = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await finish.wait()
        writer.write(OK)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client.expect_health(url)
    waiting = ask(client, url)
    await until(lambda: bool(client._open))
    server.close()
    await until(lambda: client.health.questions > 2 * peer_health.SILENT_SECONDS / peer_health.ASK_EVERY)
    finish.set()
    assert await waiting


async def test_rollouts_go_to_another_replica_while_one_is_lost(client: HttpClient, far: Process, fast: None) -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.say(OK)

    async with raw_server(script) as server:
        peers = Peers("", {}, client)
        take(peers, far, server)
        os.kill(far.pid, signal.SIGSTOP)
        with pytest.raises(PeerVanished):
            await ask(client, far.url + "/never")
        picked = {(await peers.pick("model", "model")).url for _ in range(10)}
        assert picked == {server.url}
        os.kill(far.pid, signal.SIGCONT)
        await until(lambda: not client.is_lost(far.url))
        assert (await peers.pick("model", "model")).url == far.url


def take(peers: Peers, far: Process, server: RawServer) -> None:
    replicas = (ReplicaView(id="m-1", url=far.url), ReplicaView(id="m-2", url=server.url))
    view = InstanceView(type="responses_api_models", implementation="m", replicas=replicas, sdk=True)
    peers._take(Discovery(stack="s", instances={"model": view}).model_dump_json().encode())


# Sockets.


def test_every_connection_has_its_kernel_ask_after_the_peer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        keep_alive(listener)
        address = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", listener.getsockname())
        with make_live_socket(address) as sock:
            sock.connect(listener.getsockname())
            accepted, _ = listener.accept()
            with accepted:
                for one in (sock, accepted) if sys.platform == "linux" else (sock,):
                    assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                if sys.platform == "linux":
                    for one in (sock, accepted):
                        values = [one.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in PROBES]
                        assert values == [3, 2, 3]
                    assert heard_within(sock, 60)


PROBES = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")


def test_options_that_a_system_does_not_have_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROBES, "TCP_USER_TIMEOUT", "TCP_INFO"):
        monkeypatch.delattr(socket, name, raising=False)
    with socket.socket() as sock:
        keep_alive(sock)
        limit_unacknowledged(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert not heard_within(sock, 60)


def test_a_socket_file_has_no_such_options() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        keep_alive(ours)
        limit_unacknowledged(ours)
        assert not ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_a_server_that_reads_nothing_for_longer_than_tcp_waits_gets_a_large_body_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Linux's user timeout counts the time without room too: it is lifted for what may not fit."""
    monkeypatch.setattr("gym.http.pool.UNACKNOWLEDGED_SECONDS", 0.5)
    client, body, go_on = HttpClient(), b"x" * (8 << 20), asyncio.Event()
    loop = asyncio.get_running_loop()
    got = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await go_on.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        while len(got) < len(body) and (data := await reader.read(1 << 20)):
            got.extend(data)
        writer.write(OK)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    waiting = asyncio.ensure_future(
        client.request("POST", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", body=body, timeout=DEADLINE)
    )
    loop.call_later(2.0, go_on.set)  # four times what would have ended it
    assert (await waiting).status == 200
    await client.aclose()
    server.close()


async def until(holds: Callable[[], bool], seconds: float = DEADLINE) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.02)


class Waiter:
    """A connection on which a reply has been awaited for long."""

    peer = (False, "127.0.0.1", 9)
    waits = True
    asked = -math.inf

    def __init__(self) -> None:
        self.given_up = False

    def heard_within(self, seconds: float) -> bool:
        return False

    def give_up(self, error: PeerVanished) -> None:
        self.given_up = True


async def silent_for_long() -> tuple[PeerHealth, Waiter]:
    health, waiter = PeerHealth(), Waiter()
    health.expect_answers(waiter.peer)
    health.watch(waiter)
    began = asyncio.get_running_loop().time() - 2 * peer_health.SILENT_SECONDS
    health._silent_peers[waiter.peer] = SilentPeer(began, math.inf, reached=True)
    return health, waiter


async def test_a_peer_that_answers_others_is_busy_and_not_gone() -> None:
    health, waiter = await silent_for_long()
    health.replied[waiter.peer] = asyncio.get_running_loop().time()
    health._look_around()
    assert not waiter.given_up
    assert not health.lost
    health.close()


async def test_a_peer_whose_last_reply_to_anyone_is_old_is_given_up() -> None:
    health, waiter = await silent_for_long()
    health.replied[waiter.peer] = asyncio.get_running_loop().time() - 1.5 * peer_health.SILENT_SECONDS
    health._look_around()
    assert waiter.given_up
    assert waiter.peer in health.lost
    health.close()


async def test_one_connection_that_its_kernel_forgot_is_not_the_end_of_a_peer() -> None:
    """A full queue of callers drops some: their data is acknowledged by no one, while all others are served."""
    health, waiter = PeerHealth(), Waiter()
    health.watch(waiter)
    health.replied[waiter.peer] = asyncio.get_running_loop().time()
    health.leave(waiter, vanished=True)
    assert not health.lost
    health.watch(waiter)
    health.replied.clear()
    health.leave(waiter, vanished=True)
    assert waiter.peer in health.lost
    health.close()

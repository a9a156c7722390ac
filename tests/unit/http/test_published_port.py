"""Around Docker's proxy of a published port, where many connections are asked for."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from gym.http.dial import parse_url
from gym.http.published_port import FEW, PublishedPortDial, find_proxy

PORT = 38073


def write_proxy(
    proc: Path,
    inside: int,
    *,
    pid: int = 7,
    host_ip: str = "127.0.0.1",
    port: int = PORT,
    container: str = "127.0.0.1",
    proto: str = "tcp",
) -> Path:
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "comm").write_text("docker-proxy\n")
    words = ["/usr/bin/docker-proxy", "-proto", proto, "-host-ip", host_ip, "-host-port", str(port)]
    words += ["-container-ip", container, "-container-port", str(inside)]
    (folder / "cmdline").write_bytes("\0".join([*words, ""]).encode())
    return folder


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, list[int]]]:
    """A listener's port, and a list that gets an entry for each of its connections, which are closed at the end."""
    taken: list[int] = []
    tasks: list[asyncio.Task[None]] = []

    async def answer(writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            writer.write(b"x")
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(1)
        tasks.append(asyncio.create_task(answer(writer)))

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], taken
        await asyncio.gather(*tasks)


async def connect(dial: PublishedPortDial, port: int) -> None:
    """Opens a connection to the published port, and waits until who took it has said so."""
    ended = asyncio.get_running_loop().create_future()

    class Waiting(asyncio.Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            ended.set_result(None)

    transport, _ = await dial.open(Waiting, parse_url(f"http://127.0.0.1:{port}/run"))
    await ended
    transport.close()


def dial_of(proc: Path, connections: int = 10_000) -> PublishedPortDial:
    return PublishedPortDial(connections, proc=proc, owner=os.getuid(), probe_seconds=60)


async def test_many_connections_go_to_the_container(tmp_path: Path) -> None:
    async with listening() as (inside, container), listening() as (published, proxy):
        write_proxy(tmp_path, inside, port=published)
        dial = dial_of(tmp_path)
        for _ in range(3):
            await connect(dial, published)
        assert (len(container), len(proxy)) == (3, 0)


async def test_for_few_connections_nothing_is_looked_for(tmp_path: Path) -> None:
    async with listening() as (inside, container), listening() as (published, proxy):
        write_proxy(tmp_path, inside, port=published)
        await connect(dial_of(tmp_path, FEW), published)
        await connect(dial_of(tmp_path, FEW + 1), published)
        assert (len(container), len(proxy)) == (1, 1)


async def test_a_container_that_is_out_of_reach_is_tried_once(tmp_path: Path) -> None:
    container: list[int] = []

    def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        container.append(1)
        writer.close()

    with socket.socket() as inside:
        inside.bind(("127.0.0.1", 0))  # the port is taken, and refuses until something listens there
        async with listening() as (published, proxy):
            write_proxy(tmp_path, inside.getsockname()[1], port=published)
            dial = dial_of(tmp_path)
            await connect(dial, published)
            async with await asyncio.start_server(take, sock=inside):
                await connect(dial, published)
        assert (len(container), len(proxy)) == (0, 2)


async def test_the_container_is_found_again_after_its_router_was_made_again(tmp_path: Path) -> None:
    async with listening() as (first, before), listening() as (second, after), listening() as (published, proxy):
        folder = write_proxy(tmp_path, first, port=published)
        dial = dial_of(tmp_path)
        await connect(dial, published)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
        await connect(dial, published)  # by the published port: no proxy says where the container is
        assert (len(before), len(proxy)) == (1, 1)
        write_proxy(tmp_path, second, pid=9, port=published)
        dial = dial_of(tmp_path)
        await connect(dial, published)
        write_proxy(tmp_path, first, pid=9, port=published)  # the same id, another container
        await connect(dial, published)
        assert (len(before), len(after), len(proxy)) == (2, 1, 1)


def test_only_the_proxy_of_this_port_is_found(tmp_path: Path) -> None:
    owner = os.getuid()
    (tmp_path / "self").mkdir()
    (tmp_path / "3").mkdir()  # a process that ended as it was looked at
    write_proxy(tmp_path, 1, pid=4, proto="udp")
    write_proxy(tmp_path, 2, pid=5, port=PORT + 1)
    write_proxy(tmp_path, 3, pid=6, host_ip="192.0.2.1")
    assert find_proxy("127.0.0.1", PORT, proc=tmp_path, owner=owner) is None
    write_proxy(tmp_path, 11001, pid=8, host_ip="0.0.0.0", container="10.200.0.7")
    for host in ("127.0.0.1", "localhost"):
        found = find_proxy(host, PORT, proc=tmp_path, owner=owner)
        assert found is not None
        assert (found.host, found.port) == ("10.200.0.7", 11001)


def test_a_proxy_of_another_users_engine_is_left_alone(tmp_path: Path) -> None:
    write_proxy(tmp_path, 11001)
    assert find_proxy("127.0.0.1", PORT, proc=tmp_path, owner=os.getuid() + 1) is None


def test_where_there_are_no_processes_to_read_nothing_is_found(tmp_path: Path) -> None:
    assert find_proxy("127.0.0.1", PORT, proc=tmp_path / "none") is None

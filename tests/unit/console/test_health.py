"""Who refuses is out at once, who keeps silent is not, and what is wrong with us says nothing about them."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator

import pytest

from gym.console.engine_dns import ContainerAddress
from gym.console.health import Health, _is_silence
from gym.http.pool import HttpClient, NotSent
from tests.support.router import Backend

HERE = ContainerAddress("localhost", "127.0.0.1")


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    made = HttpClient()
    yield made
    await made.aclose()


async def until(health: Health, *, well: bool) -> None:
    async with asyncio.timeout(120):
        while health.is_healthy(HERE) != well:
            health.changed.clear()
            await health.changed.wait()


async def test_one_that_ends_is_out_and_its_successor_is_in(client: HttpClient) -> None:
    backend = Backend()
    health = Health(client, backend.port)
    health.watch({HERE}, ())
    await until(health, well=True)
    await asyncio.to_thread(backend.stop)
    await until(health, well=False)
    health.watch((), ())
    assert not health.is_healthy(HERE)
    await health.aclose()


async def test_of_another_make_any_answer_is_a_good_one_but_503(client: HttpClient) -> None:
    backend = Backend()
    backend.healthy = False
    health = Health(client, backend.port)
    health.watch((), {HERE})
    seen = backend.probes
    async with asyncio.timeout(120):
        while backend.probes < seen + 3:
            await asyncio.sleep(0.02)
    assert not health.is_healthy(HERE)
    await health.aclose()
    await asyncio.to_thread(backend.stop)


async def test_one_that_never_answered_is_not_well_however_silent(client: HttpClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        health = Health(client, listener.getsockname()[1])
        health.watch({HERE}, ())
        connection, _ = await asyncio.to_thread(listener.accept)
        with connection:
            assert not health.is_healthy(HERE)
        await health.aclose()


@pytest.mark.parametrize(
    ("error", "silence"),
    [
        (TimeoutError(), True),
        (ConnectionResetError(errno.ECONNRESET, "reset"), False),
        (OSError(errno.EMFILE, "too many open files"), True),
        (NotSent("no connection within 3 s"), True),
    ],
)
def test_what_says_that_no_server_is_there(error: OSError, silence: bool) -> None:
    assert _is_silence(error) is silence


async def test_a_refused_connection_is_not_silence(client: HttpClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NotSent) as found:
        await client.request("GET", f"http://127.0.0.1:{port}/healthz", timeout=120)
    assert not _is_silence(found.value)

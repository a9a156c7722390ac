"""A host that vanishes, its cable pulled: every wait for it ends long before its deadline."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym import labels
from gym.http.peer_health import PeerHealth, PeerVanished
from gym.http.pool import HttpClient
from gym.http.streams import exchange
from gym.sandbox.broker_client import Sandboxes
from gym.server.upstream import Upstream
from gym.wire.failures import RolloutError
from tests.support.netns import ENDLESS, FarHost, far_host

PORT = 8000
DEADLINE = 120.0  # of the calls; the bound of what is noticed is a tenth of it
LARGE = b"x" * (16 << 20)  # never fits on its way

SERVER = """
from pathlib import Path
from typing import Any
import asyncio, os
from gym.server import ResourcesServer, tool

FOLDER = Path(os.environ["TEST_FOLDER"])

class Waits(ResourcesServer):
    @tool
    async def wait(self) -> str:
        (FOLDER / "began").touch()
        try:
            await asyncio.sleep(10000)
        except asyncio.CancelledError:
            (FOLDER / "cancelled").touch()
            raise
        return ""

    async def verify(self, rollout) -> float:
        return 0.0

app = Waits.app({"name": "waits"})
"""
CALLER = """
    import socket, sys, time
    sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
    sock.sendall(b"POST /wait HTTP/1.1\\r\\nhost: x\\r\\ncontent-type: application/json\\r\\n")
    sock.sendall(b"content-length: 2\\r\\n\\r\\n{}")
    time.sleep(10000)
"""


@pytest.fixture
def far() -> Iterator[FarHost]:
    with far_host() as host:
        yield host


@pytest.fixture
def log(far: FarHost, tmp_path: Path) -> Path:
    """The paths that are asked for over there."""
    file = tmp_path / "asked"
    far.run(ENDLESS, str(PORT), str(file))
    return file


async def test_every_call_to_a_host_that_vanished_ends_long_before_its_deadline(far: FarHost, log: Path) -> None:
    """And none does as long as the host is there, however silent."""
    url = f"http://{far.there}:{PORT}"
    await until(lambda: is_up(far.there))
    alone, beside, quick, large = (
        HttpClient(asks_health=False),
        HttpClient(),
        HttpClient(asks_health=False),
        HttpClient(),
    )
    sandboxes, upstream, health = Sandboxes(url, "token"), Upstream(url), PeerHealth()

    async def read_stream() -> None:
        async with asyncio.timeout(DEADLINE), exchange("GET", url + "/stream", (), health=health) as incoming:
            await incoming.whole()

    waiting: dict[str, asyncio.Task[object]] = {
        "nothing on its way, the kernel's probes": later(alone.request("POST", url + "/a", timeout=DEADLINE)),
        "its health asked beside it": later(beside.request("POST", url + "/b", timeout=DEADLINE)),
        "a model's provider": later(upstream.post("/c", {})),
        "a stream": later(read_stream()),
        "the sandbox broker": later(sandboxes.call("POST", "/d", {}, timeout=DEADLINE)),
    }
    await until(lambda: log.read_text().count("/healthz") > 3 * 5)  # three of them ask every three seconds
    assert [name for name, task in waiting.items() if task.done()] == []

    for client in (quick, large):
        await client.request("GET", url + "/healthz", timeout=DEADLINE)  # a connection that is kept
    await asyncio.to_thread(far.pull_cable)
    waiting["a request that never arrived"] = later(quick.request("POST", url + "/e", timeout=DEADLINE))
    waiting["one too large to arrive"] = later(large.request("POST", url + "/f", body=LARGE, timeout=DEADLINE))
    await asyncio.gather(*waiting.values(), return_exceptions=True)
    ends = {name: task.exception() for name, task in waiting.items()}
    for name, end in ends.items():
        assert isinstance(end, (PeerVanished, RolloutError)), f"{name}: {end!r}"
        assert not isinstance(end, RolloutError) or (end.kind != "timeout" and end.retryable), f"{name}: {end!r}"
    assert beside.is_lost(url)

    await asyncio.to_thread(far.plug_in)
    await until(lambda: not beside.is_lost(url))
    assert (await beside.request("GET", url + "/healthz", timeout=DEADLINE)).status == 200
    for one in (alone, beside, quick, large, upstream, sandboxes):
        await one.aclose()
    health.close()


async def test_what_is_done_for_a_caller_that_vanished_is_cancelled(far: FarHost, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(SERVER)
    environ = {**os.environ, "TEST_FOLDER": str(tmp_path), labels.ENV_LISTEN: f"{far.here}:{PORT}"}
    server = subprocess.Popen([sys.executable, "-m", "gym.server.serve", str(tmp_path / "app.py")], env=environ)
    try:
        await until(lambda: is_up(far.here))
        far.run(CALLER, far.here, str(PORT))
        await until((tmp_path / "began").exists)
        await asyncio.to_thread(far.pull_cable)
        await until((tmp_path / "cancelled").exists)
    finally:
        server.kill()
        server.wait()


def later(work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
    return asyncio.ensure_future(work)


async def until(holds: Callable[[], bool], seconds: float = DEADLINE) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.05)


def is_up(host: str) -> bool:
    try:
        socket.create_connection((host, PORT), 1).close()
    except OSError:
        return False
    return True

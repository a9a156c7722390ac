"""A server that is restarted under load, over connections that are kept: nothing that was asked is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gym.http.pool import HttpClient
from gym.runtime.local import LocalRuntime
from gym.runtime.status import StackStatus
from tests.support.stacks import make_service, make_stack, replica, start, until

REAL_APP = """
import asyncio
from gym.server import ResourcesServer, tool

class Slow(ResourcesServer[None]):
    @tool
    async def pause(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

app = Slow.app()
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".gym" / "drain"


def test_a_restart_loses_no_request_on_kept_connections(home: Path, tmp_path: Path) -> None:
    service = make_service(tmp_path, "slow")
    assert service.directory is not None
    (service.directory / "app.py").write_text(REAL_APP)
    url = replica(start(home, make_stack(service)), "slow-1").url
    try:
        statuses, restarts = asyncio.run(ask_through_restarts(home, url))
    finally:
        LocalRuntime().down(home)
    assert set(statuses) == {200}
    assert len(statuses) > 100
    assert restarts == 2


async def ask_through_restarts(home: Path, url: str) -> tuple[list[int], int]:
    """Sixteen callers on kept connections while the server is restarted twice."""
    http, over = HttpClient(), asyncio.Event()
    statuses: list[int] = []

    async def ask_on() -> None:
        while not over.is_set():
            reply = await http.request("POST", f"{url}/pause", body=b'{"seconds": 0.01}', timeout=120)
            statuses.append(reply.status)

    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(ask_on())
        pids = [await asyncio.to_thread(restart, home) for _ in range(2)]
        over.set()
    await http.aclose()
    return statuses, len(set(pids))


def restart(home: Path) -> int | None:
    seen: list[StackStatus] = []
    status = LocalRuntime().restart(home, ("slow",), seen.append, timeout=120)
    until(lambda: status.healthy)
    return replica(status, "slow-1").pid

"""Of several hops that wait on one deadline, the innermost gives up first: who hangs is who is named."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from gym.http.pool import HttpClient
from gym.server import rollout_client as rollouts
from gym.server.replicas import Peers
from gym.server.rollout_client import RolloutClient
from gym.server.testing import running
from gym.wire.failures import RolloutError
from tests.unit.server.test_asgi import Echo


@pytest.fixture(autouse=True)
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Margins that a pause of this process does not use up: the 50 ms of a rollout of one second are soon gone."""
    monkeypatch.setattr(rollouts, "MARGIN_SHARE", 0.5)
    monkeypatch.setattr(rollouts, "MARGIN_SECONDS", 2.0)


@pytest.mark.parametrize("seconds", [3.0, 6.0])
async def test_a_peer_that_hangs_says_so_itself(seconds: float) -> None:
    async with running(Echo.app({}, name="echo")) as url:
        http = HttpClient()
        peers = Peers("", {"echo": url}, http)
        async with RolloutClient(http, peers, seconds=seconds, resources_server="echo") as rollout:
            with pytest.raises(RolloutError, match="/wait was not done when the rollout's deadline passed") as caught:
                await rollout.post("echo", "/wait", b"{}", kind="resources", hop="tools")
            left = rollout.seconds_left
        await http.aclose()
    assert (caught.value.kind, caught.value.server) == ("timeout", "echo")
    assert left > 0


async def test_a_peer_that_is_silent_is_named_by_the_rollout() -> None:
    gone = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.read()
            writer.close()
            await writer.wait_closed()
        gone.set()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    http = HttpClient()
    peers = Peers("", {"mute": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}, http)
    async with RolloutClient(http, peers, seconds=3.0, resources_server="mute") as rollout:
        with pytest.raises(RolloutError, match="/wait was not answered within the deadline") as caught:
            await rollout.post("mute", "/wait", b"{}", kind="resources", hop="tools")
        assert rollout.seconds_left > 0
    await http.aclose()
    await gone.wait()
    server.close()
    await server.wait_closed()
    assert caught.value.server == "mute"

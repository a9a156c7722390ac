"""The console says which agents' replicas nothing can be heard of: not who refuses, and not who is not an agent."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from gym.console.vanished import Vanished
from gym.http import peer_health
from gym.wire.discovery import Discovery, InstanceView, ReplicaView, replica_route
from gym.wire.server_types import ServerType
from tests.support.raw_http import OK, Peer, raw_server

AGENT: ServerType = "responses_api_agents"


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK_SECONDS", "ASK_AFTER", "SILENT_SECONDS", "UNREACHED_SECONDS", "RETURN_EVERY"):
        monkeypatch.setattr(peer_health, name, getattr(peer_health, name) / 10)


@pytest.fixture
def silent() -> Iterator[str]:
    """A paused process: its kernel takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def stack(**urls: str) -> Discovery:
    agents = [ReplicaView(id=id, url=url, route=replica_route(AGENT, id)) for id, url in urls.items() if id != "model"]
    views = {"agent": InstanceView(type=AGENT, implementation="a", replicas=tuple(agents), sdk=True)}
    if "model" in urls:
        one = ReplicaView(id="model", url=urls["model"], route=replica_route("responses_api_models", "model"))
        views["model"] = InstanceView(type="responses_api_models", implementation="m", replicas=(one,), sdk=True)
    return Discovery(stack="s", instances=views)


async def test_who_is_silent_or_out_of_reach_has_vanished_until_it_answers_again(silent: str) -> None:
    speaks = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await speaks.wait()
        await peer.say(OK)

    async def well(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK)

    with socket.create_server(("127.0.0.1", 0)) as closed:
        refuses = f"http://127.0.0.1:{closed.getsockname()[1]}"
    vanished, gone = Vanished(), "http://gone.invalid:8000"
    async with raw_server(script) as pausing, raw_server(well) as other:
        found = stack(a=silent, b=gone, c=refuses, d=other.url, e=pausing.url, model=silent)
        await until(vanished, found, {"a", "b", "e"})
        speaks.set()
        await until(vanished, found, {"a", "b"})
        await until(vanished, stack(b=gone), {"b"})
        await until(vanished, stack(b=other.url), set())
    vanished.close()


async def until(vanished: Vanished, found: Discovery, expected: set[str]) -> None:
    async with asyncio.timeout(120):
        while set(vanished.look(found)) != expected:
            await asyncio.sleep(0.02)

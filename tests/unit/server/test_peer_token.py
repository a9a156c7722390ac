"""A server that other machines can reach answers its own stack alone."""

from __future__ import annotations

import pytest

from gym.http.pool import HttpClient
from gym.labels import ENV_PEER_TOKEN, HEADER_PEER
from gym.server import ResourcesServer, tool
from gym.server.config import read_settings
from gym.server.peer_token import is_stranger, peer_headers
from gym.server.replicas import Peers
from gym.server.testing import running
from gym.wire.discovery import Discovery, InstanceView, ReplicaView


class Words(ResourcesServer[None]):
    @tool
    async def shout(self, word: str) -> str:
        return word.upper()


async def test_without_the_token_only_its_health_is_shown() -> None:
    async with running(Words.app({}, peer_token="of-the-stack")) as server:
        client = HttpClient()
        refused = await client.request("POST", f"{server}/shout", body=b'{"word": "a"}')
        health = await client.request("GET", f"{server}/healthz")
        wrong = [(HEADER_PEER.encode(), b"of-another")]
        other = await client.request("GET", f"{server}/tools", headers=wrong)
        client.greet(server, peer_headers({ENV_PEER_TOKEN: "of-the-stack"}))
        taken = await client.request("GET", f"{server}/tools")
        await client.aclose()
    assert (refused.status, health.status, other.status, taken.status) == (401, 200, 401, 200)
    assert b"ask its router" in refused.body


async def test_the_other_servers_of_the_stack_show_it_by_themselves(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv(ENV_PEER_TOKEN, "of-the-stack")
    async with running(Words.app({}, peer_token="of-the-stack")) as server:
        view = InstanceView(
            type="resources_servers", implementation="words", replicas=(ReplicaView(id="words-1", url=server),)
        )
        path = tmp_path_factory.mktemp("stack") / "discovery.json"
        path.write_text(Discovery(stack="test", instances={"words": view}).model_dump_json())
        client = HttpClient()
        peer = await Peers(str(path), {}, client).pick("words", "resources")
        reply = await client.request("GET", f"{peer.url}/tools")
        await client.aclose()
    assert reply.status == 200


def test_a_server_of_one_machine_asks_for_no_token() -> None:
    assert read_settings({}).peer_token == ""
    assert not is_stranger({"type": "http", "path": "/verify", "headers": []}, "")
    assert peer_headers({}) == ()

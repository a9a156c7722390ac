"""Lends the policy to an environment whose library plays by itself, for one rollout: a URL, a key, and a budget."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson

from gym.server.adapters.play_tools import PlayTool
from gym.server.adapters.play_verdict import PlayVerdict
from gym.server.adapters.played_environment import PLAY_PATH
from gym.server.adapters.whole_agent import PlayTask, PolicyAccess, WholeAgent
from gym.server.agent import RunRow
from gym.server.rollout_client import RolloutClient
from gym.wire.failures import RolloutError
from gym.wire.json_text import write_json


class PlayAgent(WholeAgent):
    """`max_steps` is how many model calls the library may make; it knows, and ends by itself where it can."""

    async def run(self, row: RunRow, rollout: RolloutClient) -> bytes:
        replicas = await self.peers.replicas(rollout.resources_server)
        if replicas:
            self.gates.host = await own_address(replicas[0].url)
        return await super().run(row, rollout)

    async def respond(self, params: Mapping[str, Any], rollout: RolloutClient) -> dict[str, Any]:
        raise RolloutError("row", f"{self.name} plays rows of its environment: POST /run", retryable=False)

    async def play(self, task: PlayTask, model: PolicyAccess, tools: Sequence[PlayTool]) -> PlayVerdict:
        lent = {"base_url": model.base_url, "key": model.key, "model": model.name, "max_steps": self.config.max_steps}
        row = {**task.row, "responses_create_params": task.params, "play": lent}
        server = task.rollout.resources_server
        reply = await task.rollout.post(server, PLAY_PATH, write_json(row), kind="resources", hop="play")
        return read_verdict(reply.body, server)


def read_verdict(body: bytes, server: str) -> PlayVerdict:
    try:
        fields = orjson.loads(body)
        return PlayVerdict(float(fields.pop("reward")), fields)
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError, ValueError):
        what = f"{PLAY_PATH} answered without a reward: {body[:200].decode('utf-8', 'replace')}"
        raise RolloutError("resources", what, server=server, retryable=False) from None


async def own_address(url: str) -> str:
    """Where a peer reaches this process: the address of the way that leads to it. Nothing is sent."""
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_DGRAM)
        family, kind, *_, address = found[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise RolloutError("resources", f"no way to {url}: {error}", retryable=True) from error


app = PlayAgent.app()

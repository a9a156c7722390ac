"""A server without sessions says that seeding does nothing there: agents then leave it out, and are held to that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import orjson
import pytest

from gym.http.pool import Reply
from gym.labels import HEADER_SEEDLESS
from gym.server import Agent, ResourcesServer, Route
from gym.server.asgi import Answer, Call
from gym.server.base import ServerApp
from gym.server.testing import Caller, running
from gym.wire.failures import RolloutError
from gym.wire.rows import Row, VerifyRequest
from tests.support.peers import Asked, make_policy_model, says

ROW = orjson.dumps({"responses_create_params": {"input": "go"}})


class Toy(ResourcesServer[str]):
    """Without a `seed`. `breaks` is what its verifier raises; `other` is the reply of a server in its place."""

    breaks: Exception | None = None
    other: Answer | None = None

    def routes(self) -> list[Route]:
        self.seeds = 0
        return [_counted(self, route) for route in super().routes()]

    async def verify(self, rollout: VerifyRequest) -> float:
        if self.breaks:
            raise self.breaks
        return 1.0


class Stateful(ResourcesServer[str]):
    async def seed(self, row: Row) -> str:
        return "a state"

    async def verify(self, rollout: VerifyRequest, state: str) -> float:
        return float(state == "a state")


def _counted(toy: Toy, route: Route) -> Route:
    async def serve(call: Call) -> Answer:
        toy.seeds += route.path == "/seed_session"
        return toy.other if toy.other and route.path == "/verify" else await route.handler(call)

    return Route(route.path, serve, method=route.method)


@asynccontextmanager
async def toy(**fields: Any) -> AsyncIterator[tuple[Caller, Toy]]:
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(running(make_policy_model(lambda body, turn: says("done"), Asked())))
        app = Toy.app({}, name="toy")
        resources = await stack.enter_async_context(running(app))
        assert isinstance(app.server, Toy)
        config = {
            "resources_server": {"type": "resources_servers", "name": "toy"},
            "model_server": {"type": "responses_api_models", "name": "policy_model"},
            **fields,
        }
        document = {
            "toy": _block("resources_servers", resources),
            "policy_model": _block("responses_api_models", model),
        }
        agent = await stack.enter_async_context(running(Agent.app(config, name="agent", document=document)))
        yield await stack.enter_async_context(Caller(agent)), app.server


def _block(server_type: str, url: str) -> dict[str, Any]:
    host, _, port = url.removeprefix("http://").partition(":")
    return {server_type: {"x": {"host": host, "port": int(port)}}}


async def run(caller: Caller) -> Reply:
    return (await caller.post("/run", ROW)).reply


async def test_only_the_first_rollout_seeds_a_server_that_keeps_nothing() -> None:
    async with toy() as (agent, server):
        rewards = [orjson.loads((await run(agent)).body)["reward"] for _ in range(3)]
        assert (rewards, server.seeds) == ([1.0] * 3, 1)


async def test_a_rollout_that_is_not_verified_is_seeded() -> None:
    async with toy(skip_verification=True) as (agent, server):
        for _ in range(3):
            await run(agent)
        assert server.seeds == 3


@pytest.mark.parametrize(
    "other", [Answer(b'{"reward": 0.0}'), Answer(b"{}", 500), Answer(b"{}", 422)], ids=["reward", "500", "422"]
)
async def test_a_server_that_took_its_place_gives_no_rewards_to_rollouts_without_a_seed(other: Answer) -> None:
    async with toy() as (agent, server):
        await run(agent)
        server.other = other
        failure = orjson.loads((await run(agent)).body)["error"]
        assert (failure["kind"], failure["retryable"], server.seeds) == ("lost_session", True, 1)
        await run(agent)
        assert server.seeds == 2


async def test_a_verifier_that_breaks_is_its_own_failure() -> None:
    async with toy() as (agent, server):
        await run(agent)
        server.breaks = ZeroDivisionError("boom")
        assert orjson.loads((await run(agent)).body)["error"]["kind"] == "resources"
        server.breaks = RolloutError("timeout", "it took too long", retryable=False)
        assert orjson.loads((await run(agent)).body)["error"]["kind"] == "timeout"
        assert server.seeds == 1


@pytest.mark.parametrize("app", [Stateful.app({}, name="toy"), Toy.app({"expose_tools_over_mcp": True}, name="toy")])
async def test_a_server_that_seeds_does_not_say_so(app: ServerApp) -> None:
    async with running(app) as url, Caller(url) as caller:
        assert (await caller.post("/seed_session", ROW)).reply.header(HEADER_SEEDLESS.encode()) is None

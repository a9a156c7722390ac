"""A rollout that is not verified closes its session: what the state holds is let go of at once, not at its TTL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import orjson
import pytest

from gym.http.pool import HttpClient
from gym.server import Agent, ResourcesServer, asgi
from gym.server.testing import running
from gym.wire.rows import Row, VerifyRequest
from tests.support.peers import Asked, make_policy_model, says

ROW = orjson.dumps({"responses_create_params": {"input": "go"}})


class Toy(ResourcesServer[list[str]]):
    """Its state stands for a sandbox: its owner has to be called when it is no longer needed."""

    opened: asyncio.Event
    closed: asyncio.Event
    breaks = False

    async def seed(self, row: Row) -> list[str]:
        self.opened.set()
        return ["a sandbox"]

    async def verify(self, rollout: VerifyRequest, state: list[str]) -> float:
        if self.breaks:
            raise ZeroDivisionError("boom")
        return 1.0

    async def close(self, state: list[str]) -> None:
        self.closed.set()


class Hangs(Agent):
    async def respond(self, params: Any, rollout: Any, budget: Any = None) -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("it is never set")


@asynccontextmanager
async def toy(agent: type[Agent] = Agent, *, breaks: bool = False, **fields: Any) -> AsyncIterator[tuple[str, Toy]]:
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(running(make_policy_model(lambda body, turn: says("done"), Asked())))
        app = Toy.app({}, name="toy")
        resources = await stack.enter_async_context(running(app))
        assert isinstance(app.server, Toy)
        app.server.opened, app.server.closed, app.server.breaks = asyncio.Event(), asyncio.Event(), breaks
        config = {
            "resources_server": {"type": "resources_servers", "name": "toy"},
            "model_server": {"type": "responses_api_models", "name": "policy_model"},
            **fields,
        }
        document = {
            "toy": _block("resources_servers", resources),
            "policy_model": _block("responses_api_models", model),
        }
        yield await stack.enter_async_context(running(agent.app(config, name="agent", document=document))), app.server


def _block(server_type: str, url: str) -> dict[str, Any]:
    host, _, port = url.removeprefix("http://").partition(":")
    return {server_type: {"x": {"host": host, "port": int(port)}}}


async def run(url: str, timeout: float = 30, **headers: str) -> dict[str, Any]:
    http = HttpClient()
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    try:
        reply = await http.request("POST", f"{url}/run", body=ROW, headers=sent, timeout=timeout)
    finally:
        await http.aclose()
    parsed: dict[str, Any] = orjson.loads(reply.body)
    return parsed


async def closed(server: Toy) -> None:
    async with asyncio.timeout(120):
        await server.closed.wait()
    assert len(server.sessions) == 0


async def test_a_caller_who_goes_away_takes_the_state_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "WATCH_AFTER_SECONDS", 0.0)
    async with toy(Hangs) as (url, server):
        call = asyncio.create_task(run(url))
        await server.opened.wait()
        assert not server.closed.is_set()
        call.cancel()
        await closed(server)


async def test_a_rollout_whose_deadline_passes_closes_its_session() -> None:
    async with toy(Hangs) as (url, server):
        reply = await run(url, x_gym_timeout="3")
        assert reply["error"]["kind"] == "timeout"
        await closed(server)


async def test_a_rollout_whose_verifier_breaks_closes_its_session() -> None:
    async with toy(breaks=True) as (url, server):
        reply = await run(url)
        assert reply["error"]["kind"] == "resources"
        await closed(server)


async def test_a_rollout_that_skips_verification_closes_its_session() -> None:
    async with toy(skip_verification=True) as (url, server):
        assert (await run(url))["verification_skipped"] is True
        await closed(server)


async def test_an_agent_that_stops_says_farewell_first() -> None:
    """The reply has left, the request to close the session has not: stopping waits for it."""
    async with toy(breaks=True) as (url, server):
        await run(url)
    assert server.closed.is_set()


async def test_a_verified_rollout_has_nothing_left_to_close(monkeypatch: pytest.MonkeyPatch) -> None:
    async with toy() as (url, server):
        asked: list[str] = []
        answer = HttpClient.request

        async def note(self: HttpClient, method: str, url: str, **more: Any) -> Any:
            asked.append(url.rpartition("/")[2])
            return await answer(self, method, url, **more)

        monkeypatch.setattr(HttpClient, "request", note)
        assert (await run(url))["reward"] == 1.0
        assert server.closed.is_set()  # by verify
    assert asked == ["run", "seed_session", "responses", "verify"]

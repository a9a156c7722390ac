"""Real servers on real sockets for tests of agents: a model that answers from a list, a counter with state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from gym.http.pool import HttpClient, Reply
from gym.server import Agent, Reference, ResourcesServer, Route, Server, tool
from gym.server.asgi import Answer, Call
from gym.server.base import json_answer
from gym.server.testing import running
from gym.wire import items
from gym.wire.rows import Row, VerifyRequest

Item = dict[str, Any]
Policy = Callable[[dict[str, Any], int], dict[str, Any] | Answer]


@dataclass
class Asked:
    """What a policy was asked, in order."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    cookies: list[dict[str, str]] = field(default_factory=list)
    rollouts: list[str] = field(default_factory=list)
    timeouts: list[float | None] = field(default_factory=list)


def make_policy_model(policy: Policy, asked: Asked) -> Any:
    class PolicyModel(Server):
        role = "model"

        def routes(self) -> list[Route]:
            return [Route("/v1/responses", self.respond)]

        async def respond(self, call: Call) -> Answer:
            body = orjson.loads(call.body)
            asked.bodies.append(body)
            asked.cookies.append(call.cookies())
            asked.rollouts.append(call.rollout_id)
            asked.timeouts.append(call.timeout)
            answer = policy(body, len(asked.bodies))
            return answer if isinstance(answer, Answer) else json_answer(answer, ((b"set-cookie", b"kv=7; Path=/"),))

    return PolicyModel.app({}, name="policy_model")


class CounterRow(Row):
    initial_count: int = 0


class CounterVerify(VerifyRequest):
    expected_count: int


class Counter(ResourcesServer[dict[str, int]]):
    """State, a tool that works, a tool that breaks and a verifier that may break too."""

    async def seed(self, row: CounterRow) -> dict[str, int]:
        return {"count": row.initial_count}

    async def unseeded(self) -> dict[str, int]:
        return {"count": 0}

    @tool
    async def add(self, count: int, state: dict[str, int]) -> dict[str, int]:
        """Adds to the counter."""
        state["count"] += count
        return dict(state)

    @tool
    async def explode(self) -> str:
        """Always breaks."""
        raise ZeroDivisionError("boom")

    async def verify(self, rollout: CounterVerify, state: dict[str, int]) -> float:
        return 1.0 if state["count"] == rollout.expected_count else 0.0


@dataclass
class Team:
    """An agent, its model and its resources server, listening."""

    url: str
    http: HttpClient
    asked: Asked

    async def post(self, path: str, body: Any, headers: list[tuple[bytes, bytes]] | None = None) -> Reply:
        raw = body if isinstance(body, bytes) else orjson.dumps(body)
        return await self.http.request("POST", self.url + path, body=raw, headers=headers or (), timeout=120)

    async def run(self, **fields: Any) -> tuple[int, dict[str, Any]]:
        row = {"responses_create_params": {"input": "count"}, "expected_count": 3, **fields}
        reply = await self.post("/run", row)
        return reply.status, orjson.loads(reply.body)


@asynccontextmanager
async def team(policy: Policy, *, agent: type[Agent] = Agent, model: Any = None, **fields: Any) -> AsyncIterator[Team]:
    """`model`: the app of a model server, instead of one that answers by `policy`."""
    asked = Asked()
    async with AsyncExitStack() as stack:
        model_url = await stack.enter_async_context(running(model or make_policy_model(policy, asked)))
        resources_url = await stack.enter_async_context(running(Counter.app({}, name="counter")))
        config = {
            "resources_server": {"type": "resources_servers", "name": "counter"},
            "model_server": {"type": "responses_api_models", "name": "policy_model"},
            **fields,
        }
        document = {
            "policy_model": _block("responses_api_models", model_url),
            "counter": _block("resources_servers", resources_url),
        }
        app = agent.app(config, name="counter_agent", document=document)
        http = HttpClient()
        stack.push_async_callback(http.aclose)
        yield Team(await stack.enter_async_context(running(app)), http, asked)


def says(text: str = "done", **more: Any) -> dict[str, Any]:
    return {**items.response([items.message(text)], model="m", usage=items.text_usage(10, 5)), **more}


def calls(*named: tuple[str, str]) -> dict[str, Any]:
    output = [items.function_call(name, arguments) for name, arguments in named]
    return items.response(output, model="m", usage=items.text_usage(10, 5))


def _block(server_type: str, url: str) -> dict[str, Any]:
    host, _, port = url.removeprefix("http://").partition(":")
    return {server_type: {"x": {"host": host, "port": int(port)}}}


__all__ = ["Asked", "Counter", "Reference", "Team", "calls", "says", "team"]

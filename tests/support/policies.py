"""A stack in one process for rollouts that bring an endpoint along: agents, the shipped `openai` model, two providers.

`policy` is what is configured; `trainer` is what a row may name.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gym.http.pool import HttpClient, Reply
from gym.server import Agent
from gym.server.serve import load_app
from gym.server.testing import running
from tests.support.fake_openai import FakeOpenAI, fake_openai
from tests.support.peers import Counter

SERVERS = Path(__file__).parents[2] / "servers"
CONFIGURED = "sk-configured-0123456789"
KEY = "sk-canary-0123456789"
Body = dict[str, Any]


def openai_app(fields: Mapping[str, Any], **settings: Any) -> Any:
    load_app(SERVERS / "models" / "openai" / "app.py")
    return sys.modules["app"].OpenAI.app(fields, **settings)


@dataclass
class Stand:
    """What listens, and what the providers were asked."""

    policy: FakeOpenAI
    trainer: FakeOpenAI
    http: HttpClient
    model: Any  # the app of the model server
    model_url: str
    document: Body
    urls: dict[str, str] = field(default_factory=dict)

    async def post(self, url: str, body: Body, headers: Mapping[str, str] | None = None) -> Reply:
        pairs = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        return await self.http.request("POST", url, body=orjson.dumps(body), headers=pairs, timeout=60)

    async def run(self, name: str, **fields: Any) -> tuple[int, Body, Reply]:
        row = {"responses_create_params": {"input": "count"}, "expected_count": 0, **fields}
        reply = await self.post(f"{self.urls[name]}/run", row)
        return reply.status, orjson.loads(reply.body), reply

    def endpoint(self, **fields: Any) -> Body:
        return {"policy_base_url": self.trainer.url, "policy_api_key": KEY, **fields}


@asynccontextmanager
async def stand(
    allowed: Any = "private", trainer: Mapping[str, Any] | None = None, **model: Any
) -> AsyncIterator[Stand]:
    async with AsyncExitStack() as stack:
        policy = await stack.enter_async_context(fake_openai(api_key=CONFIGURED))
        other = await stack.enter_async_context(fake_openai(api_key=KEY, **(trainer or {})))
        fields = {"openai_base_url": policy.url, "openai_api_key": CONFIGURED, "openai_model": "configured", **model}
        fields = {"openai_default_headers": {"x-org": CONFIGURED}, **fields}
        app = openai_app(fields, name="policy_model", document={"policy_urls": allowed})
        url = await stack.enter_async_context(running(app))
        counter = await stack.enter_async_context(running(Counter.app({}, name="counter")))
        document = {
            "policy_model": block("responses_api_models", url),
            "counter": block("resources_servers", counter),
        }
        http = HttpClient()
        stack.push_async_callback(http.aclose)
        yield Stand(policy, other, http, app, url, document)


@asynccontextmanager
async def agents(on: Stand, *kinds: tuple[str, type[Agent], Body]) -> AsyncIterator[Stand]:
    """Agents by name, each after those that it may ask."""
    async with AsyncExitStack() as stack:
        for name, kind, fields in kinds:
            given = {"resources_server": ref("resources_servers", "counter"), **fields}
            given.setdefault("model_server", ref("responses_api_models", "policy_model"))
            app = kind.app({key: value for key, value in given.items() if value}, name=name, document=on.document)
            on.urls[name] = await stack.enter_async_context(running(app))
            on.document[name] = block("responses_api_agents", on.urls[name])
        yield on


def ref(type: str, name: str) -> Body:
    return {"type": type, "name": name}


def block(server_type: str, url: str) -> Body:
    host, _, port = url.removeprefix("http://").partition(":")
    return {server_type: {"x": {"host": host, "port": int(port)}}}

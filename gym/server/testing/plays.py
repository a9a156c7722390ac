"""Agents between a model and an environment on sockets; above all for environments that play by themselves.

`async with play_stack(MyEnvironment.app(fields), PLAY_AGENT, says("yes")) as caller: await caller.post("/run", row)`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gym.server import Model, ServerApp
from gym.server.testing import Caller, running
from gym.wire import items

Say = Callable[[dict[str, Any]], dict[str, Any]]  # what a request for a response is answered with


class SpeakingModel(Model):
    """A policy with token ids. A test subclasses it with its own `say`."""

    say: Say

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        reply = type(self).say(params)
        count = len(params["input"])
        ids = {"prompt_token_ids": [*range(count)], "generation_token_ids": [count], "generation_log_probs": [-1.0]}
        reply["output"][-1] |= ids
        return reply


def says(text: str) -> Say:
    """The same, whatever it is asked."""
    return lambda _: items.response([items.message(text)], model="m", usage=items.text_usage(10, 5))


@asynccontextmanager
async def play_stack(environment: ServerApp, agent: Path, say: Say, **fields: Any) -> AsyncIterator[Caller]:
    """A caller of the agent. `agent`: the folder of `play_agent`; `fields`: its configuration."""
    policy: Any = type("Policy", (SpeakingModel,), {"say": staticmethod(say)})
    async with running(environment) as env, running(policy.app({}, name="policy")) as model:
        references, document = wiring(model, env)
        app = _load(agent).PlayAgent.app(references | fields, name="agent", document=document)
        async with running(app) as url, Caller(url) as caller:
            yield caller


def wiring(model: str, environment: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The references of an agent's configuration, and its `document`, for servers that run at these URLs."""
    references = {
        "model_server": {"type": "responses_api_models", "name": "policy"},
        "resources_server": {"type": "resources_servers", "name": "env"},
    }
    document = {
        "policy": {"responses_api_models": {"any": address_of(model)}},
        "env": {"resources_servers": {"any": address_of(environment)}},
    }
    return references, document


def address_of(url: str) -> dict[str, Any]:
    """As the configuration of an instance has it."""
    parts = urlsplit(url)
    return {"host": parts.hostname, "port": parts.port}


def _load(agent: Path) -> Any:
    """Its module, which every server has under the name `app`: here it gets another."""
    spec = importlib.util.spec_from_file_location("play_agent_app", agent / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["play_agent_app"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

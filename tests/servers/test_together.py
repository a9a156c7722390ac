"""The shipped servers together: the scripted policy, the simple agent and each environment, over sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from gym.server.testing import Caller, running
from tests.support.shipped import config_of, folder_of, rows_of, shipped_app


@asynccontextmanager
async def stack(name: str) -> AsyncIterator[str]:
    """The URL of an agent of `name`, as `gym up NAME --model scripted` configures it."""
    config = yaml.safe_load((folder_of("scripted", "models") / "configs" / "scripted.yaml").read_text("utf-8"))
    fields = config["policy_model"]["responses_api_models"]["scripted"]
    async with AsyncExitStack() as servers:

        async def started(one: str, **configured: Any) -> str:
            # One after another: each is a module called `app` until it runs.
            app = servers.enter_context(shipped_app(one, **configured))
            return await servers.enter_async_context(running(app))

        model = await started("scripted", kind="models", **fields)
        document = {
            "policy_model": {"responses_api_models": {"scripted": place_of(model)}},
            name: {"resources_servers": {name: place_of(await started(name))}},
        }
        agent = config_of(folder_of(name) / "configs" / f"{name}.yaml")
        own = agent[f"{name}_simple_agent"]["responses_api_agents"]["simple_agent"]
        yield await started("simple_agent", kind="agents", document=document, **own)


def place_of(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    return {"host": parts.hostname, "port": parts.port}


async def rewards_of(name: str) -> list[float]:
    async with stack(name) as url, Caller(url) as caller:
        replies = [await caller.post("/run", row) for row in rows_of(name)]
    assert [one.status for one in replies] == [200] * 5, [one.body for one in replies]
    return [one.body["reward"] for one in replies]


@pytest.mark.parametrize("name", ["simple_weather", "multi_step", "stateful_counter"])
async def test_the_scripted_policy_solves_every_example(name: str) -> None:
    assert await rewards_of(name) == [1.0] * 5


async def test_the_scripted_policy_is_right_on_some_questions_and_in_every_run_on_the_same() -> None:
    first = await rewards_of("mcqa")
    assert 0 < sum(first) < 5
    assert await rewards_of("mcqa") == first

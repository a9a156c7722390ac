"""A provider that answers 429 slows its own model server: the run goes on, and other agents do not notice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import orjson
import pytest

from gym.testing import GymStack
from tests.support.cli import GYM, environment
from tests.support.fake_openai import Failure, FakeOpenAI, fake_openai
from tests.support.router import eventually

ROWS = 20
CONFIG = """
busy_model:
  responses_api_models:
    openai:
      entrypoint: app.py
      openai_base_url: {url}
      openai_api_key: none
      openai_model: busy
busy_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {{type: resources_servers, name: mcqa}}
      model_server: {{type: responses_api_models, name: busy_model}}
"""


@pytest.fixture
async def limited(tmp_path: Path) -> AsyncIterator[tuple[GymStack, FakeOpenAI]]:
    async with fake_openai() as provider:
        provider.failures = [Failure(429, {"error": "slow"}, {"retry-after": "0.05"}) for _ in range(100_000)]
        (tmp_path / "busy.yaml").write_text(CONFIG.format(url=provider.url))
        async with GymStack("mcqa", runtime="local").with_config(tmp_path / "busy.yaml") as stack:
            yield stack, provider


async def test_a_storm_of_429_fails_no_rollout_and_slows_no_other_agent(limited: tuple[GymStack, FakeOpenAI]) -> None:
    stack, provider = limited
    output = stack.folder / "X.jsonl"
    collector = await asyncio.create_subprocess_exec(
        *(GYM, "rollouts", str(write_rows(stack.folder / "in.jsonl")), "-o", str(output), "--json"),
        cwd=stack.folder,
        env=environment(),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        await until(lambda: len(provider.asked) > 5 and finished(output) == {"mcqa_simple_agent": ROWS})
        upstream = await asyncio.to_thread(lambda: eventually(lambda: throttled_to_one(stack), what="one at a time"))
        assert upstream["throttled"] > 0
        held = await asyncio.to_thread(lambda: eventually(lambda: held_calls(stack), what="calls that are held back"))
        assert (held[0]["instance"], held[0]["provider"]) == ("busy_model", urlsplit(provider.url).netloc)
        assert held[0]["waiting"] > 0
        provider.failures.clear()
        async with asyncio.timeout(240):
            _, said = await collector.communicate()
        assert collector.returncode == 0
    finally:
        if collector.returncode is None:
            collector.kill()
    assert finished(output) == {"mcqa_simple_agent": ROWS, "busy_agent": ROWS}
    assert not (stack.folder / "X_failures.jsonl").read_bytes()
    events = [json.loads(line) for line in said.splitlines() if line.startswith(b"{")]
    holders = {held["instance"] for event in events for held in event.get("held", ())}
    assert holders == {"busy_model"}
    attempts = {orjson.loads(line)["_gym"]["attempt"] for line in output.read_bytes().splitlines()}
    assert attempts == {1}


def write_rows(path: Path) -> Path:
    """The two agents by turns."""
    rows = []
    for number in range(ROWS):
        for agent in ("busy_agent", "mcqa_simple_agent"):
            asked = {"input": [{"role": "user", "content": f"{number}. Answer in \\boxed{{}}."}]}
            options = {"options": [{"A": "x"}, {"B": "y"}], "expected_answer": "A"}
            rows.append({"responses_create_params": asked, **options, "agent_ref": {"name": agent}})
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def finished(output: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for line in output.read_bytes().splitlines(keepends=True) if output.exists() else ():
        if line.endswith(b"\n"):
            name = orjson.loads(line)["agent_ref"]["name"]
            counts[name] = counts.get(name, 0) + 1
    return counts


def held_calls(stack: GymStack) -> list[dict[str, Any]]:
    """What the page shows of the collection."""
    return [held for one in fetch(f"{stack.url}/collections")["collections"] for held in one["progress"]["held"]]


def throttled_to_one(stack: GymStack) -> dict[str, Any] | None:
    """What the busy model server says. Every call is refused: sooner or later its provider is asked one at a time."""
    url = next(one.url for one in stack.status().replicas if one.instance == "busy_model")
    upstream: dict[str, Any] = fetch(f"{url}/healthz")["upstream"]
    return upstream if upstream["at_once"] == 1 else None


def fetch(url: str) -> Any:
    with urlopen(url, timeout=60) as reply:
        return json.loads(reply.read())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(240):
        while not condition():
            await asyncio.sleep(0.05)

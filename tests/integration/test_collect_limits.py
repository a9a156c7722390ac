"""A provider that answers 429 slows its own model server: the run goes on, and other agents do not notice."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import orjson
import pytest

from tests.support.cli import GYM, environment, gym
from tests.support.fake_openai import Failure, fake_openai
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
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    gym("down", cwd=tmp_path)


async def test_a_storm_of_429_fails_no_rollout_and_slows_no_other_agent(folder: Path) -> None:
    async with fake_openai() as provider:
        provider.failures = [Failure(429, {"error": "slow"}, {"retry-after": "0.05"}) for _ in range(100_000)]
        (folder / "busy.yaml").write_text(CONFIG.format(url=provider.url))
        words = ("up", "mcqa", "-c", "busy.yaml", "--model", "scripted", "--runtime", "local", "--port", "0")
        up = await asyncio.to_thread(gym, *words, cwd=folder)
        assert up.returncode == 0, up.stderr
        output = folder / "X.jsonl"
        collector = await asyncio.create_subprocess_exec(
            *(GYM, "rollouts", str(write_rows(folder / "in.jsonl")), "-o", str(output), "--json"),
            cwd=folder,
            env=environment(),
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            await until(lambda: len(provider.asked) > 5 and finished(output) == {"mcqa_simple_agent": ROWS})
            upstream = await asyncio.to_thread(
                lambda: eventually(lambda: throttled_to_one(folder), what="one at a time")
            )
            assert upstream["throttled"] > 0
            held = await asyncio.to_thread(wait_for_held, folder)
            assert (held["instance"], held["provider"]) == ("busy_model", urlsplit(provider.url).netloc)
            assert held["waiting"] > 0
            provider.failures.clear()
            async with asyncio.timeout(240):
                _, said = await collector.communicate()
            assert collector.returncode == 0
        finally:
            if collector.returncode is None:
                collector.kill()
    assert finished(output) == {"mcqa_simple_agent": ROWS, "busy_agent": ROWS}
    assert not (folder / "X_failures.jsonl").read_bytes()
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


def wait_for_held(folder: Path) -> dict[str, Any]:
    """What the page shows of the collection."""
    router = json.loads(gym("ps", "--json", cwd=folder).stdout)["router"]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with urlopen(f"{router}/collections", timeout=60) as reply:
            for one in json.loads(reply.read())["collections"]:
                for held in one["progress"]["held"]:
                    found: dict[str, Any] = held
                    return found
        time.sleep(0.2)
    raise AssertionError("no collection says that calls are held back")


def throttled_to_one(folder: Path) -> dict[str, Any] | None:
    """Every call is refused: sooner or later one at a time is asked."""
    upstream = upstream_of(folder)
    return upstream if upstream["at_once"] == 1 else None


def upstream_of(folder: Path) -> dict[str, Any]:
    """What the busy model server says of its provider."""
    found = json.loads(gym("ps", "--json", cwd=folder).stdout)
    url = next(one["url"] for one in found["replicas"] if one["instance"] == "busy_model")
    with urlopen(f"{url}/healthz", timeout=60) as reply:
        upstream: dict[str, Any] = json.loads(reply.read())["upstream"]
    return upstream


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(240):
        while not condition():
            await asyncio.sleep(0.05)

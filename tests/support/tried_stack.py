"""A console beside a real resources server, to be tried by hand: folder of the environment, stack's files, pages."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import orjson

from gym.console.app import Deps, make_app
from gym.console.discovery_sources import LiveSources
from gym.console.environments.env_catalog import EnvCatalog
from gym.console.environments.environments_section import StackToTry, make_section
from gym.console.environments.person_session import PersonSessions
from gym.console.probes import Prober
from gym.console.run_sections import make_run_sections
from gym.files import write_atomically
from gym.http.pool import HttpClient
from gym.server import ResourcesServer, Score, VerifyRequest, tool
from gym.server.gymnasium import Action, GymnasiumServer, Step
from gym.server.replicas import Peers
from gym.server.testing import running
from gym.wire import items
from gym.wire.discovery import Discovery, InstanceView, ReplicaView
from gym.wire.failures import RolloutError

ASKED = "Count to **3**, then say done."
ROW: dict[str, Any] = {"responses_create_params": {"input": [{"role": "user", "content": ASKED}]}, "goal": 3}
README = "# counting\n\nCounts to a goal. `add` adds.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nLicense: Apache-2.0\n"


class CountingRow(VerifyRequest):
    goal: int


class CountingServer(ResourcesServer[dict[str, int]]):
    """Fails where a row wants it to."""

    async def seed(self, row: Any) -> dict[str, int]:
        return {"count": 0}

    @tool
    async def add(self, number: int, state: dict[str, int], way: Literal["up", "down"] = "up") -> dict[str, int]:
        """Adds a number."""
        state["count"] += number if way == "up" else -number
        return dict(state)

    async def verify(self, rollout: CountingRow, state: dict[str, int]) -> Score:
        if rollout.goal < 0:
            raise RolloutError("sandbox", "the sandbox is gone")
        right = state["count"] == rollout.goal and rollout.last_text == "done"
        return Score(reward=0.75 if right else 0.0, reason="" if right else f"counted {state['count']}")


class GuessingServer(GymnasiumServer[list[str]]):
    async def reset(self, row: Any) -> tuple[list[str], str]:
        return [], "Guess a number."

    async def step(self, action: Action, state: list[str]) -> Step:
        state.append(items.last_assistant_text(action.response.output))
        return Step("Again.", 1.0 if state[-1] == "7" else 0.25, terminated=state[-1] == "7")


def write_environment(folder: Path, name: str = "counting", *, readme: str = README, row: Any = None) -> Path:
    """Below a root; returns the environment's folder."""
    place = folder / "servers" / "resources" / name
    (place / "data").mkdir(parents=True)
    (place / "app.py").write_text("")
    (place / "README.md").write_text(readme)
    rows = [row or ROW, {**ROW, "goal": 4}]
    (place / "data" / "example.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    request = {**ROW, "response": {"output": [items.message("done")]}}
    case = {"name": "no calls", "kind": "zero_reward", "request": request, "expected_reward": 0.0}
    (place / "data" / "verifier_cases.jsonl").write_text(json.dumps(case) + "\n{torn\n")
    figures = [{"agent_ref": {"name": "an_agent"}, "key_metrics": {"mean/reward": 0.5}}]
    (place / "data" / "example_metrics.json").write_text(json.dumps(figures))
    return place


def write_stack_files(folder: Path, servers: dict[str, str], root: Path) -> None:
    """`servers`: the URL of each resources server, by its name, which its environment has too."""
    kind = "resources_servers"
    views = {
        name: InstanceView(type=kind, implementation=name, replicas=(ReplicaView(id=f"{name}-1", url=url),), sdk=True)
        for name, url in servers.items()
    }
    found = Discovery(stack="gym", generation=1, router="http://127.0.0.1:9", instances=views)
    write_atomically(folder / "discovery.json", found.model_dump_json())
    facts = {
        name: {
            "type": kind,
            "implementation": name,
            "prefix": f"/s/{name}",
            "directory": str(root / "servers" / "resources" / name),
        }
        for name in servers
    }
    write_atomically(folder / "console.json", orjson.dumps({"stack": "gym", "servers": facts}).decode())


@asynccontextmanager
async def console_to_try(folder: Path, servers: dict[str, str], root: Path, **limits: Any) -> AsyncIterator[str]:
    """The console's address. `limits`: of the sessions."""
    write_stack_files(folder, servers, root)
    client = HttpClient()
    discovery = folder / "discovery.json"
    sources = LiveSources(str(discovery), folder / "console.json", client)
    sessions = PersonSessions(Peers(str(discovery), {}, client), client, **limits)
    environments = make_section(EnvCatalog([root]), StackToTry(sources, sessions))
    sections = make_run_sections(None, environments=environments)
    deps = Deps(sources, Prober(client), client=client, sections=lambda: sections)
    try:
        async with running(make_app(deps)) as url:
            yield url
    finally:
        await client.aclose()

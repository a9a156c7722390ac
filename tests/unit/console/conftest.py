"""A console on a real socket, over real files, asking real servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest

from gym.console.app import Deps, make_app
from gym.console.discovery_sources import LiveSources
from gym.console.probes import Prober
from gym.files import write_atomically
from gym.http.pool import HttpClient, Reply
from gym.plan import Plan, make_plan
from gym.render.console_document import console_document
from gym.server.refusing import Refusing, Rules
from gym.server.testing import running
from gym.wire.discovery import Discovery, InstanceView, ReplicaView
from tests.support.plans import stack
from tests.support.router import Backend

TOKEN = "hush-hush-hush"


class Bench:
    """The stack's files, and what to change in them."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder = folder
        self.plan = plan
        self.generation = 0
        write_atomically(folder / "console.json", orjson.dumps(console_document(plan)).decode())

    def show(self, replicas: dict[str, list[str]], *, state: str = "healthy") -> None:
        self.generation += 1
        instances = {
            one.name: InstanceView(
                type=one.type,
                implementation=one.implementation,
                state=state,
                replicas=tuple(
                    ReplicaView(id=f"{one.slug}-{i}", url=url) for i, url in enumerate(replicas[one.name], 1)
                ),
            )
            for one in self.plan.services
            if one.name in replicas
        }
        found = Discovery(stack="gym", generation=self.generation, router="http://127.0.0.1:11000", instances=instances)
        write_atomically(self.folder / "discovery.json", found.model_dump_json())


class Visitor:
    def __init__(self, url: str, client: HttpClient) -> None:
        self.url = url
        self._client = client

    async def get(self, path: str, *, method: str = "GET", **headers: str) -> Reply:
        pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        return await self._client.request(method, self.url + path, headers=pairs, timeout=120)

    async def post(self, path: str, body: bytes, **headers: str) -> Reply:
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        return await self._client.request("POST", self.url + path, body=body, headers=pairs, timeout=120)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, make_plan(stack()))


@pytest.fixture
async def visitor(bench: Bench) -> AsyncIterator[Visitor]:
    async with console_over(str(bench.folder / "discovery.json"), bench.folder / "console.json") as made:
        yield made


@pytest.fixture
def backends() -> Iterator[list[Backend]]:
    made = [Backend("one"), Backend("two")]
    yield made
    for backend in made:
        backend.stop()


@asynccontextmanager
async def console_over(discovery: str, config: Path | None) -> AsyncIterator[Visitor]:
    client = HttpClient()
    deps = Deps(LiveSources(discovery, config, client), Prober(client), TOKEN)
    app = Refusing(make_app(deps), "console", loopback=True, rules=Rules(pages=True, near=True))
    async with running(app) as url:
        yield Visitor(url, client)
    await client.aclose()

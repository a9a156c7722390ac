"""The console keeps the routes: over real files, a real name (`localhost`) and a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gym.console.app import Deps, make_app
from gym.console.discovery_sources import LiveSources
from gym.console.probes import Prober
from gym.console.reconcile import Reconciler
from gym.http.pool import HttpClient
from gym.server.testing import running
from gym.wire.route_files import read_discovery
from gym.wire.wanted import Wanted, WantedRouter, WantedService, Work, write_wanted, write_work
from tests.support.router import Backend

SERVICE = WantedService(
    name="one", slug="one", host="localhost", type="resources_servers", implementation="one", launch="sdk", replicas=1
)
WANTED = Wanted(
    stack="s", project="p", url="http://r:1", router=WantedRouter(host="127.0.0.1", port=1), services=(SERVICE,)
)


class Served:
    """A server that is as healthy as the test says, and the reconciler of its routes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.discovery = folder / "discovery.json"
        self.routes = folder / "dynamic" / "stack.yml"
        self.backend = Backend()
        self.begin()

    def begin(self) -> None:
        self.reconciler = Reconciler(self.folder, self.discovery, self.routes, port=self.backend.port)
        self.work = asyncio.create_task(self.reconciler.run())

    def is_routed(self, *, healthy: bool = True) -> bool:
        """To localhost, in both files."""
        found = read_discovery(self.discovery)
        replicas = found.instances["one"].replicas if found and "one" in found.instances else ()
        listed = [one.healthy for one in replicas if one.url == "http://localhost:8000"]
        routes = self.routes.read_text() if self.routes.is_file() else ""
        return listed == [healthy] and ("http://localhost:8000" in routes) is healthy

    def is_nowhere(self) -> bool:
        found = read_discovery(self.discovery)
        return found is not None and all("localhost" not in one.url for one in found.instances["one"].replicas)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    write_wanted(tmp_path, WANTED)
    made = Served(tmp_path)
    yield made
    made.work.cancel()
    await asyncio.wait([made.work])
    await asyncio.to_thread(made.backend.stop)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.02)


async def test_who_is_well_is_routed_to_and_who_is_not_is_out(served: Served) -> None:
    await until(served.is_routed)
    served.backend.healthy = False
    await until(lambda: served.is_routed(healthy=False))
    served.backend.healthy = True
    await until(served.is_routed)


async def test_a_console_that_is_started_again_takes_no_route_away_before_it_has_asked(served: Served) -> None:
    await until(served.is_routed)
    served.work.cancel()
    await asyncio.wait([served.work])
    before = read_discovery(served.discovery)
    asked = served.backend.probes
    served.begin()
    await until(lambda: served.backend.probes > asked + 1)
    assert read_discovery(served.discovery) == before  # a route that was away meanwhile would be of a later generation

    served.work.cancel()
    await asyncio.wait([served.work])
    served.backend.healthy = False
    served.begin()
    await until(lambda: served.is_routed(healthy=False))


async def test_a_command_that_died_keeps_no_server_out_of_the_routes(served: Served) -> None:
    await until(served.is_routed)
    write_work(served.folder, Work(beat=1, leaving=("localhost",)))
    await until(served.is_nowhere)
    await until(served.is_routed)  # no command changed the beat


async def test_a_command_that_withdraws_is_followed_at_once(served: Served) -> None:
    write_work(served.folder, Work(beat=1, leaving=("localhost",)))
    await until(served.is_routed)  # it was never well while it was to leave: the next of its name
    write_work(served.folder, Work())
    await until(served.is_routed)


async def test_what_was_damaged_or_removed_is_written_again(served: Served) -> None:
    await until(served.is_routed)
    served.routes.write_text("http: {}\n")
    await until(served.is_routed)
    served.discovery.unlink()
    await until(lambda: served.discovery.is_file() and served.is_routed())


async def test_a_stack_that_goes_down_is_let_go_and_kept_again_when_it_comes_up(served: Served) -> None:
    await until(served.is_routed)
    write_wanted(served.folder, WANTED.model_copy(update={"down": True}))
    served.backend.healthy = False
    asked = served.backend.probes
    await until(lambda: served.backend.probes > asked + 3)
    assert served.is_routed()
    write_wanted(served.folder, WANTED)
    await until(lambda: served.is_routed(healthy=False))


async def test_an_instance_that_is_no_longer_wanted_is_gone_and_back_when_it_is(served: Served) -> None:
    await until(served.is_routed)
    write_wanted(served.folder, WANTED.model_copy(update={"services": ()}))
    await until(lambda: "http://localhost" not in served.routes.read_text())
    write_wanted(served.folder, WANTED)
    await until(served.is_routed)


async def test_wishes_that_cannot_be_read_change_nothing_and_make_the_console_unhealthy(served: Served) -> None:
    await until(served.is_routed)
    (served.folder / "wanted.json").write_text("{")
    await until(lambda: bool(served.reconciler.problem))
    assert served.is_routed()
    write_wanted(served.folder, WANTED)
    await until(lambda: not served.reconciler.problem)


async def test_a_console_that_cannot_write_the_routes_says_so_on_healthz(tmp_path: Path) -> None:
    write_wanted(tmp_path, WANTED)
    (tmp_path / "blocked").write_text("a file where a folder should be")
    discovery, client = tmp_path / "discovery.json", HttpClient()
    reconciler = Reconciler(tmp_path, discovery, tmp_path / "blocked" / "stack.yml")
    sources = LiveSources(str(discovery), None, client)
    async with running(make_app(Deps(sources, Prober(client), reconciler=reconciler))) as url:
        await until(lambda: "blocked" in reconciler.problem)
        reply = await client.request("GET", f"{url}/healthz", timeout=120)
        assert reply.status == 503
        assert b"the routes could not be written" in reply.body
    await client.aclose()

"""Keeps the routes of a stack what they should be, for as long as the stack lives and whatever became of the commands.

Wanted is what is on disk; seen is what runs and is healthy; the difference goes into discovery and the router's file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from gym.console.engine_dns import ContainerAddress, ContainerNames
from gym.console.health import Health
from gym.http.dial import parse_url
from gym.http.pool import HttpClient
from gym.render.routes import next_discovery, router_text
from gym.render.wanted_stack import Leavers, Sight, discovery_of
from gym.wire.discovery import Discovery
from gym.wire.route_files import read_discovery, write_routes
from gym.wire.stack_names import PORT
from gym.wire.wanted import Beat, Wanted, read_wanted, read_work

LOOK_SECONDS: Final = 0.3
Stamp = tuple[int, int, int]
log = logging.getLogger("gym.console")


class Reconciler:
    """`problem` says why the routes may be old; "" when they are not."""

    def __init__(
        self,
        folder: Path,
        discovery: Path,
        routes: Path,
        port: int = PORT,
        on_places: Callable[[Mapping[str, str]], None] | None = None,
    ) -> None:
        """`on_places`: gets the name of the replica at each address, at every turn."""
        self._on_places = on_places
        self._port = port
        self._folder = folder
        self._discovery = discovery
        self._routes = routes
        self._names = ContainerNames()
        self._beat = Beat()
        self._leavers = Leavers()
        self._written: tuple[Wanted, Discovery, tuple[Stamp, ...]] | None = None
        self._is_first = True
        self.problem = "the routes were not looked at yet"

    async def run(self) -> None:
        """For ever."""
        client = HttpClient()
        health = Health(client, self._port)
        try:
            while True:
                health.changed.clear()
                self._note(await self._tried(health))
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await health.changed.wait()
        finally:
            await health.aclose()
            await client.aclose()

    async def _tried(self, health: Health) -> str:
        try:
            return await self._turn(health)
        except Exception as error:  # noqa: BLE001 (the next turn may go better, and nothing else makes one)
            return f"the routes could not be written: {str(error) or type(error).__name__}"

    async def _turn(self, health: Health) -> str:
        wanted = read_wanted(self._folder)
        if wanted is None:
            return f"the wanted state of the stack is missing in {self._folder}"
        if wanted.down:
            self._is_first = False
            return ""
        places = await self._names.find(wanted)
        if self._on_places is not None:
            self._on_places(_names_by_address(wanted, places))
        ours, others = _split_by_launch(wanted, places)
        health.watch(ours, others, self._healthy_before())
        seen = {name: _sights(found, health) for name, found in places.items()}
        found = discovery_of(wanted, seen, self._leaving(seen))
        self._write(wanted, found)
        return ""

    def _healthy_before(self) -> frozenset[str]:
        """Hosts that an earlier console has published as healthy: one that is started again takes no route away before
        it has asked."""
        before = read_discovery(self._discovery) if self._is_first else None
        self._is_first = False
        replicas = (one for view in before.instances.values() for one in view.replicas) if before else ()
        return frozenset(parse_url(one.url).host for one in replicas if one.healthy)

    def _write(self, wanted: Wanted, found: Discovery) -> None:
        """Also when another process changed or removed a file: only what a later look confirms is good."""
        now = (wanted, found, self._stamps())
        if self._written == now:
            return
        current = next_discovery(found, read_discovery(self._discovery))
        changed = write_routes(self._discovery, self._routes, current, router_text(wanted, current))
        self._written = None if changed else now
        if changed:
            log.info("routes: %s", _summary(found))

    def _stamps(self) -> tuple[Stamp, ...]:
        return tuple(_stamp(path) for path in (self._discovery, self._routes))

    def _leaving(self, seen: Mapping[str, list[Sight]]) -> frozenset[str]:
        work = read_work(self._folder)
        if not self._beat.hears(work, asyncio.get_running_loop().time()):
            return frozenset()
        return self._leavers.now(work, {one.host for group in seen.values() for one in group if one.healthy})

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.error("%s", problem)
        self.problem = problem


def _sights(places: tuple[ContainerAddress, ...], health: Health) -> list[Sight]:
    """A container may have an address of each family."""
    seen: dict[tuple[str, int], bool] = {}
    for one in places:
        replica = (one.host, one.shared_port)
        seen[replica] = seen.get(replica, False) or health.is_healthy(one)
    return [Sight(host, healthy, port) for (host, port), healthy in seen.items()]


def _names_by_address(wanted: Wanted, places: Mapping[str, tuple[ContainerAddress, ...]]) -> dict[str, str]:
    start = f"{wanted.project}-"
    return {one.address: one.host.removeprefix(start) for found in places.values() for one in found}


def _split_by_launch(
    wanted: Wanted, places: Mapping[str, tuple[ContainerAddress, ...]]
) -> tuple[frozenset[ContainerAddress], frozenset[ContainerAddress]]:
    sdk = {one.name for one in wanted.services if one.launch == "sdk"}
    ours = frozenset(place for name in places.keys() & sdk for place in places[name])
    return ours, frozenset(place for name in places.keys() - sdk for place in places[name])


def _summary(found: Discovery) -> str:
    states = {name: one.state for name, one in found.instances.items()}
    unhealthy = [f"{name} {state}" for name, state in states.items() if state != "healthy"]
    return f"{len(states) - len(unhealthy)} of {len(states)} instances are healthy" + (
        f"; {', '.join(unhealthy)}" if unhealthy else ""
    )


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_size)

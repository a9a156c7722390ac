"""Which containers of a stack run, found by the engine's own DNS: it needs no socket and no rights.

A service's name has the address of each of its containers that runs; an address has the name of its container. In a
Swarm that name is a task's, so each replica is asked for by its own.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Mapping
from typing import Final, NamedTuple

from gym.wire.stack_names import PORT
from gym.wire.wanted import Wanted, WantedService

LOOKUP_SECONDS: Final = 2.0
NAMELESS: Final = re.compile(r"^[0-9a-f]{12}_")  # Compose is about to rename it
GONE: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class ContainerAddress(NamedTuple):
    """A container that runs: its name, and its address just now."""

    host: str
    address: str


class ContainerNames:
    """Remembers the last replies: a name server that does not answer says nothing about containers."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[ContainerAddress, ...]] = {}

    async def find(self, wanted: Wanted) -> Mapping[str, tuple[ContainerAddress, ...]]:
        """By instance."""
        found = await asyncio.gather(*(self._look(wanted, one) for one in wanted.services))
        self._known = {one.name: places for one, places in zip(wanted.services, found, strict=True)}
        return self._known

    async def _look(self, wanted: Wanted, service: WantedService) -> tuple[ContainerAddress, ...]:
        addresses = await _addresses(service.host)
        if addresses is None:
            return self._known.get(service.name, ())
        known = {one.address: one for one in self._known.get(service.name, ())}
        if known.keys() == addresses and len(addresses) == service.replicas:
            return self._known[service.name]
        named = {} if wanted.aliased else {one: await _name(one, wanted.network) for one in addresses}
        if wanted.aliased or not all(named.values()):
            named |= await _predicted(wanted, service)
        places = (
            ContainerAddress(host, address) for address, host in named.items() if host and not NAMELESS.match(host)
        )
        return tuple(sorted(places))


async def _predicted(wanted: Wanted, service: WantedService) -> dict[str, str]:
    """Where addresses have no names: the names that the containers should have, and their addresses."""
    hosts = [wanted.replica(service, number) for number in range(1, service.replicas + 1)]
    looked = await asyncio.gather(*map(_addresses, hosts))  # a name that is not there may be asked for outside
    return {address: host for host, found in zip(hosts, looked, strict=True) for address in found or ()}


async def _addresses(host: str) -> frozenset[str] | None:
    """None when no name server answered."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            found = await loop.getaddrinfo(host, PORT, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return frozenset() if error.errno in GONE else None
    except (OSError, TimeoutError):
        return None
    return frozenset(str(one[4][0]) for one in found)


async def _name(address: str, network: str) -> str:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            name, _ = await loop.getnameinfo((address, PORT), socket.NI_NAMEREQD)
    except (OSError, TimeoutError):
        return ""
    return name.removesuffix(f".{network}")

"""Which containers of a stack run, found by the engine's own DNS: it needs no socket and no rights.

A service's name has the address of each of its containers that runs; an address has the name of its container. In a
Swarm that name is a task's, so each replica is asked for by its own. A container that several instances share has one
name and one address, and a port for each.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gym.http.names import NameLookups
from gym.wire.stack_names import service_name
from gym.wire.wanted import Wanted, WantedService

LOOKUP_SECONDS: Final = 2.0
NAMELESS: Final = re.compile(r"^[0-9a-f]{12}_")  # Compose is about to rename it
GONE: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class ContainerAddress(NamedTuple):
    """A container that runs: its name, and its address just now."""

    host: str
    address: str
    shared_port: int = 0  # of the instance, where others live in the container as well


class ContainerNames:
    """Remembers the last replies: a name server that does not answer says nothing about containers."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[ContainerAddress, ...]] = {}  # by the name that was asked for
        self._names = NameLookups()

    async def find(self, wanted: Wanted) -> Mapping[str, tuple[ContainerAddress, ...]]:
        """By instance."""
        questions = {key: question for one in wanted.services for key, question in _questions(wanted, one).items()}
        found = await asyncio.gather(*(self._look(wanted, *one) for one in questions.items()))
        self._known = dict(zip(questions, found, strict=True))
        return {one.name: self._places(wanted, one) for one in wanted.services}

    def _places(self, wanted: Wanted, service: WantedService) -> tuple[ContainerAddress, ...]:
        places = self._known.get(service.host, ())
        if (shared := wanted.shared_replica(service)) and service.replicas:
            there = self._known[_shared_host(wanted, service)]
            places = (*(one._replace(shared_port=shared.port) for one in there), *places)
        return places

    async def _look(self, wanted: Wanted, host: str, names: Sequence[str]) -> tuple[ContainerAddress, ...]:
        addresses = await self._addresses(host)
        if addresses is None:
            return self._known.get(host, ())
        known = {one.address: one for one in self._known.get(host, ())}
        if known.keys() == addresses and len(addresses) == len(names):
            return self._known[host]
        named = {} if wanted.aliased else {one: await self._name(one, wanted.network) for one in addresses}
        if wanted.aliased or not all(named.values()):
            named |= await self._predicted(names, [known[one] for one in known.keys() & addresses])
        places = (
            ContainerAddress(host, address) for address, host in named.items() if host and not NAMELESS.match(host)
        )
        return tuple(sorted(places))

    async def _predicted(self, names: Sequence[str], known: Sequence[ContainerAddress]) -> dict[str, str]:
        """Where addresses have no names: the names that the containers should have, and their addresses. A name of
        which nothing was heard has those that it had."""
        looked = await asyncio.gather(*map(self._addresses, names))
        before = {name: [one.address for one in known if one.host == name] for name in names}
        return {
            address: name
            for name, found in zip(names, looked, strict=True)
            for address in (before[name] if found is None else found)
        }

    async def _addresses(self, host: str) -> frozenset[str] | None:
        """None when no name server answered in time."""
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                return frozenset(await self._names.find(host))
        except socket.gaierror as error:
            return frozenset() if error.errno in GONE else None
        except OSError:  # TimeoutError is one
            return None

    async def _name(self, address: str, network: str) -> str:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                return (await self._names.name_of(address)).removesuffix(f".{network}")
        except OSError:  # as above
            return ""


def _questions(wanted: Wanted, service: WantedService) -> dict[str, tuple[str, ...]]:
    """Names to ask for, each with the names that its containers should have. A name that no container has is not asked
    for: the engine would pass the question on to name servers outside."""
    own = tuple(wanted.own_replica(service, number) for number in range(1, service.own_replicas + 1))
    found = {} if service.shared and not own else {service.host: own}
    if (shared := wanted.shared_replica(service)) and service.replicas:
        found[_shared_host(wanted, service)] = (shared.host,)
    return found


def _shared_host(wanted: Wanted, service: WantedService) -> str:
    return service_name(service.shared, wanted.project)

"""Which names are allowed, and which addresses a name may lead to. Pure, but for `resolve_name`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import NamedTuple

from gym.wire.addresses import is_address, is_own, is_public
from gym.wire.sandbox import Network


class EgressDenied(Exception):
    """Why the gate does not let something through. `gateway`: it was granted, but the other side was not reached."""

    def __init__(self, why: str, *, gateway: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.gateway = gateway


class EgressRules(NamedTuple):
    """What one phase of a sandbox may reach. `everything` is the phase that was granted the internet."""

    hosts: tuple[str, ...] = ()
    everything: bool = False

    @classmethod
    def of(cls, network: Network) -> EgressRules:
        return cls(network.allow, network.access == "internet")

    def allows(self, host: str) -> bool:
        return bool(host) and (self.everything or any(fits(host, pattern) for pattern in self.hosts))


def fits(host: str, pattern: str) -> bool:
    """`*.example.org` is every name below example.org, and not example.org itself."""
    if pattern.startswith("*."):
        return not is_address(host) and host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host == pattern


def choose_addresses(found: Iterable[str], host: str, private: tuple[str, ...]) -> list[str]:
    """Those that may be connected to. One bad address among good ones spoils them all: no rebinding by half."""
    addresses = list(dict.fromkeys(found))
    if host in private:
        return addresses
    for address in addresses:
        if not is_public(address) or is_own(address):
            raise EgressDenied(f"{host} leads to {address}, which is not of the public internet")
    return addresses


async def resolve_name(host: str, seconds: float) -> list[str]:
    """Resolves a name by the system's resolver. The name is all of a sandbox's data that goes there."""
    if is_address(host):
        return [host]
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError) as error:
        raise EgressDenied(f"{host} could not be resolved: {str(error) or 'no answer'}", gateway=True) from None
    return [str(one[4][0]) for one in found if "%" not in str(one[4][0])]

"""Which addresses a name may lead to, and what is said where it leads elsewhere."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from gym.wire.addresses import is_address, is_own, is_public


class EgressDenied(Exception):
    """Why the gate does not let something through. `gateway`: it was granted, but the other side was not reached."""

    def __init__(self, why: str, *, gateway: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.gateway = gateway


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

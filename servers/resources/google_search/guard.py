"""Where a policy may send this server: public web addresses, and networks that the configuration names.

Addresses are checked after names have become numbers, so no spelling of an address and no name gets around it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from gym.errors import UserError

Address = IPv4Address | IPv6Address
PORTS = frozenset((80, 443, 8080, 8443))
# Public by their number, and doors to something that is not.
_DOORS = tuple(map(ip_network, ("168.63.129.16/32", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))


class Refused(Exception):
    """This address may not be visited."""


class Guard:
    def __init__(self, networks: Sequence[str] = ()) -> None:
        self._allowed = tuple(_read_network(one) for one in networks)

    def check_scheme(self, scheme: str) -> None:
        if scheme not in ("http", "https"):
            raise Refused(f"{scheme or 'no scheme'}: only http and https may be visited")

    def check_address(self, text: str, port: int) -> None:
        address = _unwrap(ip_address(text.partition("%")[0]))
        if any(address in network for network in self._allowed):
            return
        if not _is_public(address):
            raise Refused("that address is not on the public web")
        if port not in PORTS:
            raise Refused(f"port {port} may not be visited")

    def check_literal(self, host: str, port: int) -> None:
        """A host that is an address already never meets a resolver."""
        try:
            ip_address(host.partition("%")[0])
        except ValueError:
            return
        self.check_address(host, port)


def _is_public(address: Address) -> bool:
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if isinstance(address, IPv6Address) and address.is_site_local:
        return False
    return not any(address in door for door in _DOORS)


def _unwrap(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _read_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise UserError(f"allowed_networks: {error}", "write networks like 10.1.0.0/16") from None

"""Which hosts a URL that came with a rollout may lead to: `policy_urls` of a stack or of one model server. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final

from gym.errors import UserError
from gym.wire.addresses import Address, carried, is_address, is_own, is_public, plain_host

PUBLIC, PRIVATE, NONE = "public", "private", "none"
EXAMPLE: Final = "write private, public, none, or a list such as [10.0.0.0/8, trainer.local, '*.svc.cluster.local']"
# Where clouds hand out credentials to any program on the machine: allowed only where the address itself is named.
METADATA: Final = frozenset(
    map(
        ipaddress.ip_address,
        ("169.254.169.254", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
    )
)
CARRIER_GRADE: Final = ipaddress.ip_network("100.64.0.0/10")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AllowedHosts:
    """`public`: the internet at large; `private`: that, this machine and the networks around it; or hosts, `*.domain`,
    addresses and networks by name; `none` and the empty list allow nothing."""

    def __init__(self, entries: str | Iterable[str] = PUBLIC) -> None:
        self.entries = (entries,) if isinstance(entries, str) else tuple(entries)
        self._words: set[str] = set()
        self._names: list[str] = []
        self._networks: list[Network] = []
        for entry in self.entries:
            self._read(entry)

    def __str__(self) -> str:
        return f"[{', '.join(self.entries)}]" if len(self.entries) != 1 else self.entries[0]

    def allows_name(self, host: str) -> bool:
        """By its name, wherever that leads."""
        return any(
            host == name or (name.startswith("*.") and host.endswith(name[1:]) and not is_address(host))
            for name in self._names
        )

    def allows_address(self, text: str) -> bool:
        address = carried(ipaddress.ip_address(text.partition("%")[0]))
        if any(address in network for network in self._networks if network.version == address.version):
            return True
        if address in METADATA:
            return False
        if is_public(str(address)):
            return bool(self._words) and (PRIVATE in self._words or not is_own(str(address)))
        return PRIVATE in self._words and _is_near(address)

    def _read(self, entry: object) -> None:
        text = entry.strip().lower() if isinstance(entry, str) else ""
        if text in (PUBLIC, PRIVATE):
            self._words.add(text)
        elif text == NONE:
            return
        elif name := plain_host(text.removeprefix("*.")):
            self._read_host(text, name)
        else:
            try:
                self._networks.append(ipaddress.ip_network(text))
            except ValueError:
                raise UserError(f"policy_urls: {entry!r} is not a host, address or network", EXAMPLE) from None

    def _read_host(self, text: str, name: str) -> None:
        if is_address(name) and not text.startswith("*."):
            self._networks.append(ipaddress.ip_network(name))
        self._names.append(f"*.{name}" if text.startswith("*.") else name)


def _is_near(address: Address) -> bool:
    """This machine or a network around it. Link-local is neither: what listens there answers any caller."""
    if address.is_link_local or address.is_multicast:
        return False
    return address.is_private or address.is_unspecified or address in CARRIER_GRADE

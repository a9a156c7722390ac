"""Network addresses: which are of the internet at large, and which text is an address or a name at all."""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

LONGEST_NAME: Final = 253
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
CARRIERS: Final = ipaddress.ip_network("64:ff9b::/96")  # an IPv4 address travels in its last four bytes


def plain_host(text: str) -> str:
    """As rules compare it: lower case, without the last dot and an IPv6 address's brackets; "" if it is not a host."""
    host = text.strip("[]") if text.startswith("[") and text.endswith("]") else text
    host = host.lower().removesuffix(".")
    if is_address(host):
        return str(ipaddress.ip_address(host))
    if not host or len(host) > LONGEST_NAME or not host.isascii():
        return ""
    labels = host.split(".")
    good = all(0 < len(one) < 64 and all(char.isalnum() or char in "-_" for char in one) for one in labels)
    # `127.1` and `0x7f000001` are addresses to some programs; a name's last label is never a number.
    return host if good and not labels[-1].isdigit() and not labels[-1].startswith("0x") else ""


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_public(text: str) -> bool:
    """Of the internet at large: not this machine, no network around it, no cloud's metadata, no tunnel to either."""
    address = carried(ipaddress.ip_address(text))
    if address.is_multicast or address.is_reserved or address.is_unspecified or not address.is_global:
        return False
    return not (isinstance(address, ipaddress.IPv6Address) and (address.sixtofour or address.teredo))


def carried(address: Address) -> Address:
    """The IPv4 address that an IPv6 one stands for."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in CARRIERS:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_own(address: str) -> bool:
    """Whether it is an address of this machine. Nothing is sent to find out."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
            return bool(probe.getsockname()[0] == address)
        except OSError:
            return False

"""Who may connect to a server that listens on a node's address: the nodes of its own job alone.

The kernel drops the rest before a connection exists, for every program that listens. Only Linux has this.
"""

from __future__ import annotations

import ctypes
import ipaddress
import socket
import struct
from collections.abc import Iterable
from typing import Final

SO_ATTACH_FILTER: Final = 26
SO_LOCK_FILTER: Final = 44
LOOPBACK_NET: Final = "127.0.0.0/8"
_SOURCE: Final = 0xFFF00000 + 12  # SKF_NET_OFF, and where IPv4 has the sender's address
_LOAD, _AND, _EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06
_INSTRUCTION: Final = struct.Struct("HBBI")


def allow_peers(listener: socket.socket, networks: Iterable[str]) -> None:
    """`networks` are IPv4 addresses or nets. It holds for each connection too, and no program may take it off."""
    program = filter_program(networks)
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HP", len(program) // _INSTRUCTION.size, ctypes.addressof(code))
    listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, head)
    listener.setsockopt(socket.SOL_SOCKET, SO_LOCK_FILTER, 1)


def filter_program(networks: Iterable[str]) -> bytes:
    """Four instructions a network, and a last one that drops what was in none."""
    steps = []
    for net in dict.fromkeys(map(ipaddress.IPv4Network, networks)):
        steps += [
            _INSTRUCTION.pack(_LOAD, 0, 0, _SOURCE),
            _INSTRUCTION.pack(_AND, 0, 0, int(net.netmask)),
            _INSTRUCTION.pack(_EQUAL, 0, 1, int(net.network_address)),
            _INSTRUCTION.pack(_RETURN, 0, 0, 0xFFFFFFFF),
        ]
    return b"".join([*steps, _INSTRUCTION.pack(_RETURN, 0, 0, 0)])

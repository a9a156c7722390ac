"""Socket options by which a peer that vanished is noticed in seconds: a cable pulled, a network gone, a host dead.

A peer that lives is never cut off by them, however long it thinks, is silent or leaves what it was sent unread.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Any, Final

IDLE_SECONDS: Final = 3  # nothing came for so long: ask the peer's kernel
INTERVAL_SECONDS: Final = 2
PROBES: Final = 3  # 3 s + 3 times 2 s: a peer that vanished is noticed after 9 s
UNACKNOWLEDGED_SECONDS: Final = 8  # TCP resends after 0.2, 0.6, 1.4, 3, 6.2 s: 5 s without a network are survived
ONE_WINDOW: Final = 32 * 1024  # what every receiver takes in, though its program reads nothing
_LAST_ACK_AT: Final = 56  # tcpi_last_ack_recv, milliseconds, in Linux's struct tcp_info
_DARWIN_KEEPIDLE: Final = 0x10  # TCP_KEEPALIVE there


def keep_alive(sock: Any) -> None:
    """For any end of any connection; on Linux what a listener has, the connections have that it accepts."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    _set(sock, socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle = _DARWIN_KEEPIDLE if sys.platform == "darwin" else getattr(socket, "TCP_KEEPIDLE", None)
    _set(sock, socket.IPPROTO_TCP, idle, IDLE_SECONDS)
    _set(sock, socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPINTVL", None), INTERVAL_SECONDS)
    _set(sock, socket.IPPROTO_TCP, getattr(socket, "TCP_KEEPCNT", None), PROBES)


def limit_unacknowledged(sock: Any, seconds: float = UNACKNOWLEDGED_SECONDS) -> None:
    """Beside `keep_alive`, which is silent while data is on its way. Only where a peer takes in all that it is sent:
    Linux counts the time too in which a living one reads nothing and has no room (measured: 200 KB to a stopped
    server, cut off after exactly this time; 70 KB, not). 0 lifts it."""
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        _set(sock, socket.IPPROTO_TCP, getattr(socket, "TCP_USER_TIMEOUT", None), round(seconds * 1000))


def keep_transport_alive(transport: asyncio.BaseTransport, *, unacknowledged: float = 0.0) -> None:
    """For a connection that was just made or accepted."""
    sock = transport.get_extra_info("socket")
    if sock is None or sock.fileno() < 0:
        return
    ours = socket.socket(sock.family, sock.type, sock.proto, sock.fileno())  # uvloop's makes one for each option
    try:
        keep_alive(ours)
        if unacknowledged:
            limit_unacknowledged(ours, unacknowledged)
    finally:
        ours.detach()


def make_live_socket(address: Sequence[Any]) -> socket.socket:
    """For clients that let their sockets be made (aiohttp's `socket_factory`): `address` as of getaddrinfo."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    keep_alive(made)
    return made


def heard_within(sock: Any, seconds: float) -> bool:
    """True when the peer's kernel acknowledged something so lately; its program may hang even so. False: not known."""
    option = getattr(socket, "TCP_INFO", None)
    if sys.platform != "linux" or option is None:
        return False
    try:
        info = sock.getsockopt(socket.IPPROTO_TCP, option, _LAST_ACK_AT + 4)
        return bool(struct.unpack_from("=I", info, _LAST_ACK_AT)[0] <= seconds * 1000)
    except (OSError, struct.error):
        return False


def _set(sock: Any, level: int, option: int | None, value: int) -> None:
    """What a system does not know is passed over."""
    if option is None:
        return
    try:
        sock.setsockopt(level, option, value)
    except OSError:
        return

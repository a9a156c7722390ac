"""Reads the name that a TLS client asks for, from its first bytes. Pure; the bytes are passed on as they came."""

from __future__ import annotations

from typing import Final, NamedTuple

from gym.broker.egress.destinations import EgressDenied

HANDSHAKE: Final = 22
CLIENT_HELLO: Final = 1
SERVER_NAME: Final = 0
ENCRYPTED_HELLO: Final = frozenset((0xFE0D, 0xFFCE))  # ECH, and the ESNI before it


class ClientHello(NamedTuple):
    name: str | None
    encrypted: bool


def read_hello(data: bytes) -> ClientHello | None:
    """None while it is incomplete; raises EgressDenied where it is not a ClientHello."""
    message = _message(data)
    if message is None:
        return None
    cursor = _ByteReader(message)
    cursor.skip(2 + 32)
    cursor.skip(cursor.number(1))  # session id
    cursor.skip(cursor.number(2))  # cipher suites
    cursor.skip(cursor.number(1))  # compression
    found = _extensions(cursor.take(cursor.number(2)) if cursor.left else b"")
    return ClientHello(_server_name(found.get(SERVER_NAME)), not ENCRYPTED_HELLO.isdisjoint(found))


def _message(data: bytes) -> bytes | None:
    """The handshake message, which may come in several records."""
    whole, at = bytearray(), 0
    while True:
        wanted = 4 + int.from_bytes(whole[1:4]) if len(whole) >= 4 else 4
        if whole and whole[0] != CLIENT_HELLO:
            raise EgressDenied("the first message is not a ClientHello")
        if len(whole) >= 4 and len(whole) >= wanted:
            return bytes(whole[4:wanted])
        head = data[at : at + 5]
        if head and (head[0] != HANDSHAKE or head[1:2] not in (b"", b"\x03")):
            raise EgressDenied("what is spoken is not TLS")
        size = int.from_bytes(head[3:5]) if len(head) == 5 else 0
        if len(head) == 5 and not 0 < size <= 1 << 14:
            raise EgressDenied("a TLS record of an impossible size")
        if len(head) < 5 or len(data) < at + 5 + size:
            return None
        whole += data[at + 5 : at + 5 + size]
        at += 5 + size


def _extensions(data: bytes) -> dict[int, bytes]:
    cursor, found = _ByteReader(data), dict[int, bytes]()
    while cursor.left:
        kind = cursor.number(2)
        if kind in found:
            raise EgressDenied("a ClientHello that says one thing twice")
        found[kind] = cursor.take(cursor.number(2))
    return found


def _server_name(data: bytes | None) -> str | None:
    if data is None:
        return None
    cursor = _ByteReader(_ByteReader(data).take_sized())
    if cursor.number(1) != 0:
        raise EgressDenied("a server name of an unknown kind")
    name = cursor.take(cursor.number(2))
    if cursor.left:
        raise EgressDenied("more than one server name")
    try:
        return name.decode("ascii")
    except UnicodeDecodeError:
        raise EgressDenied("a server name that is not ASCII") from None


class _ByteReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise EgressDenied("a ClientHello that breaks off")
        self._at += size
        return self._data[self._at - size : self._at]

    def skip(self, size: int) -> None:
        self.take(size)

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def take_sized(self) -> bytes:
        inner = self.take(self.number(2))
        if self.left:
            raise EgressDenied("a server name list with something behind it")
        return inner

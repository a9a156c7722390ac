"""Where a peer is, and how a connection to it is opened: TCP, or a socket file of this machine."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from gym.http.peer_health import Peer

P = TypeVar("P", bound=asyncio.Protocol)
DIALS_AT_ONCE: Final = 256
LENGTH: Final = b"\r\ncontent-type: application/json\r\ncontent-length: "


class Endpoint(NamedTuple):
    tls: bool
    host: str
    port: int
    netloc: bytes
    target: bytes  # path and query
    posting: bytes  # how the head of a POST begins, up to the number that is its length

    @property
    def peer(self) -> Peer:
        return self.tls, self.host, self.port


class Dial(Protocol):
    async def open(self, make: Callable[[], P], address: Endpoint) -> tuple[Any, P]:
        """The transport (uvloop's derives from nothing of asyncio's) and the protocol that `make` made."""

    def name(self, address: Endpoint) -> str:
        """For errors."""


class TcpDial:
    async def open(self, make: Callable[[], P], address: Endpoint) -> tuple[Any, P]:
        loop, context = asyncio.get_running_loop(), _tls() if address.tls else None
        return await loop.create_connection(make, address.host, address.port, ssl=context)

    def name(self, address: Endpoint) -> str:
        return f"{address.host}:{address.port}"


class SocketFileDial:
    """Connects to one socket file, whatever the endpoint is."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def open(self, make: Callable[[], P], address: Endpoint) -> tuple[Any, P]:
        return await asyncio.get_running_loop().create_unix_connection(make, self._path)

    def name(self, address: Endpoint) -> str:
        return self._path


class DialGate:
    """Connections to one peer are opened some at a time: ten thousand at once are a second in which this process does
    nothing else, and more than the peer's kernel lets wait."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(DIALS_AT_ONCE)
        self._opened = float("-inf")  # when the last one was, by the loop's time

    async def enter(self, seconds: float, ends: float) -> None:
        """`TimeoutError` after so many seconds in which the peer took no connection, and when `ends` has come."""
        now = asyncio.get_running_loop().time
        while self._free.locked():
            began = now()
            try:
                async with asyncio.timeout_at(min(began + seconds, ends)):
                    await self._free.acquire()
                    return
            except TimeoutError:
                if self._opened < began or now() >= ends:
                    raise
        await self._free.acquire()

    def leave(self, *, opened: bool) -> None:
        if opened:
            self._opened = asyncio.get_running_loop().time()
        self._free.release()


@lru_cache(maxsize=4096)
def parse_url(url: str) -> Endpoint:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"not an http(s) address: {url!r}")
    tls = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if any(ord(char) <= 32 or ord(char) > 126 for char in target):
        raise ValueError(f"not a plain URL path: {target!r}")
    netloc, path = parts.netloc.rpartition("@")[2].encode("idna"), target.encode()
    posting = b"POST %b HTTP/1.1\r\nhost: %b%b" % (path, netloc, LENGTH)
    return Endpoint(tls, parts.hostname, parts.port or (443 if tls else 80), netloc, path, posting)


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()

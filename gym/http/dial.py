"""Where a peer is, and how a connection to it is opened: TCP, or a socket file of this machine."""

from __future__ import annotations

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from gym.http.deadlines import Deadlines
from gym.http.names import NameLookups
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
    peer: Peer


class Dial(Protocol):
    async def open(self, make: Callable[[], P], address: Endpoint) -> tuple[Any, P]:
        """The transport (uvloop's derives from nothing of asyncio's) and the protocol that `make` made."""

    def name(self, address: Endpoint) -> str:
        """For errors."""


class TcpDial:
    def __init__(self) -> None:
        self._names = NameLookups()

    async def open(self, make: Callable[[], P], address: Endpoint) -> tuple[Any, P]:
        connect = partial(
            asyncio.get_running_loop().create_connection,
            ssl=_tls() if address.tls else None,
            server_hostname=address.host if address.tls else None,
        )
        *others, last = await self._names.find(address.host)
        for host in others:
            try:
                return await connect(make, host, address.port)
            except ssl.SSLError:  # another address would say the same
                raise
            except OSError:
                continue
        return await connect(make, last, address.port)

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


class DialLimiter:
    """Connections to one peer are opened some at a time: ten thousand at once are a second in which this process does
    nothing else, and more than the peer's kernel lets wait."""

    def __init__(self) -> None:
        self._under_way = 0
        self._waiting: OrderedDict[WaitingDial, None] = OrderedDict()
        self._deadlines = Deadlines(self._waiting.keys())
        self.opened = float("-inf")  # when the last one was, by the loop's time

    async def enter(self, seconds: float, deadline: float) -> None:
        """`TimeoutError` after so many seconds in which the peer took no connection, and when `deadline` has come."""
        if self._under_way < DIALS_AT_ONCE:
            self._under_way += 1
            return
        dial = WaitingDial(self, seconds, deadline)
        self._waiting[dial] = None
        if dial.due < self._deadlines.next:
            self._deadlines.ring_at(dial.due)
        try:
            await dial.turn
        except BaseException:
            self._waiting.pop(dial, None)
            if dial.has_turn:  # cancelled at the moment at which it came
                self.leave(opened=False)
            raise

    def leave(self, *, opened: bool) -> None:
        if opened:
            self.opened = asyncio.get_running_loop().time()
        while self._waiting:
            dial, _ = self._waiting.popitem(last=False)
            if dial.waits:
                dial.turn.set_result(None)
                return
        self._deadlines.close()
        self._under_way -= 1


class WaitingDial:
    """One that waits until fewer are under way."""

    def __init__(self, limiter: DialLimiter, seconds: float, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        self._limiter = limiter
        self._seconds = seconds
        self._deadline = deadline
        self._began = loop.time()
        self.due = min(self._began + seconds, deadline)
        self.turn: asyncio.Future[None] = loop.create_future()

    @property
    def waits(self) -> bool:
        return not self.turn.done()

    @property
    def has_turn(self) -> bool:
        return self.turn.done() and not self.turn.cancelled() and self.turn.exception() is None

    def expire(self) -> None:
        """Goes on waiting where the peer has taken a connection meanwhile."""
        if self._limiter.opened < self._began or self.due >= self._deadline:
            self.turn.set_exception(TimeoutError())
        else:
            self._began = self.due
            self.due = min(self._began + self._seconds, self._deadline)


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
    host, port = parts.hostname, parts.port or (443 if tls else 80)
    return Endpoint(tls, host, port, netloc, path, posting, (tls, host, port))


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()

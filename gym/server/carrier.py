"""Brings a request to a provider and its reply back: plain HTTP by our own client, TLS and proxies by aiohttp.

aiohttp costs a model server twice the CPU for a call, and knows proxies, logins in addresses and compressed replies.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from gym.http.keepalive import make_live_socket
from gym.http.open_files import OPEN_FILES
from gym.http.pool import MAX_BODY, HttpClient, NotSent
from gym.http.tracing import TRACING

if TYPE_CHECKING:
    import aiohttp

IDLE_SECONDS = 4.0  # vLLM closes idle connections after 5: a request must never meet that moment
CONNECT_SECONDS = 10.0


class Unreachable(Exception):  # noqa: N818 (no error yet: there may be other addresses)
    """No byte of the request was sent."""


class Broken(Exception):  # noqa: N818
    """The connection ended after the request was sent: its outcome is unknown."""


class Carried(NamedTuple):
    status: int
    body: bytes
    headers: Mapping[str, str]  # names in lower case, or read without regard to case


class Carrier:
    """Of one provider; `TimeoutError` when there is no reply at `deadline`, a time of the loop.

    `shared`: an aiohttp session that others use too, and close; everything goes over it then.
    """

    def __init__(self, shared: Callable[[], aiohttp.ClientSession] | None = None) -> None:
        self._shared = shared
        self._plain: HttpClient | None = None
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, url: str, data: bytes, headers: Mapping[str, str], *, proxy: str | None, deadline: float
    ) -> Carried:
        if self._sends_itself(url, proxy):
            return await self._send("POST", url, data, headers, deadline)
        client = import_aiohttp()
        if TRACING.tracer is not None:  # our own client adds it by itself
            headers = {**headers, **{name.decode(): value.decode() for name, value in TRACING.tracer.outgoing()}}
        call = self._open().post(url, data=data, headers=headers, proxy=proxy, allow_redirects=False)
        try:
            async with asyncio.timeout_at(deadline), call as reply:
                return Carried(reply.status, await _read(reply), reply.headers)
        except (client.ClientConnectorError, client.ConnectionTimeoutError) as error:
            raise Unreachable(_words(error)) from error
        except TimeoutError:
            raise
        except (client.ClientError, OSError) as error:
            raise Broken(_words(error)) from error

    async def is_there(self, url: str, headers: Mapping[str, str], *, proxy: str | None) -> bool:
        """Any answer is one."""
        deadline = asyncio.get_running_loop().time() + CONNECT_SECONDS
        try:
            if self._sends_itself(url, proxy):
                await self._send("GET", url, b"", headers, deadline)
                return True
            async with asyncio.timeout_at(deadline), self._open().get(url, headers=headers, proxy=proxy):
                return True
        except (Unreachable, Broken, OSError):  # TimeoutError is one
            return False
        except import_aiohttp().ClientError:
            return False

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._plain is not None:
            await self._plain.aclose()
        self._session = self._plain = None

    async def _send(self, method: str, url: str, data: bytes, headers: Mapping[str, str], deadline: float) -> Carried:
        if self._plain is None:
            self._plain = HttpClient(asks_health=False, idle_seconds=IDLE_SECONDS, connect_seconds=CONNECT_SECONDS)
        left = deadline - asyncio.get_running_loop().time()
        pairs = [(name.encode(), value.encode()) for name, value in headers.items() if name != "content-type"]
        try:
            reply = await self._plain.request(method, url, body=data, headers=pairs, timeout=max(left, 0.001))
        except NotSent as error:
            raise Unreachable(_words(error.__cause__ or error)) from error
        except TimeoutError:
            raise
        except OSError as error:
            raise Broken(_words(error)) from error
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reply.headers}
        return Carried(reply.status, reply.body, headers)

    def _sends_itself(self, url: str, proxy: str | None) -> bool:
        return self._shared is None and proxy is None and url.startswith("http://") and "@" not in url

    def _open(self) -> aiohttp.ClientSession:
        if self._shared is not None:
            return self._shared()
        if self._session is None:
            self._session = open_session()
        return self._session


def open_session(**connector: Any) -> aiohttp.ClientSession:
    client = import_aiohttp()
    session: aiohttp.ClientSession = client.ClientSession(
        connector=client.TCPConnector(
            limit=OPEN_FILES.max_connections, keepalive_timeout=IDLE_SECONDS, **_live_sockets(client), **connector
        ),
        timeout=client.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        cookie_jar=client.DummyCookieJar(),
    )
    return session


def import_aiohttp() -> Any:
    return importlib.import_module("aiohttp")


def _live_sockets(client: Any) -> dict[str, Any]:
    """aiohttp lets its sockets be made since 3.12; before, `/proc/sys/net/ipv4/tcp_keepalive_time` holds for them."""
    known = "socket_factory" in inspect.signature(client.TCPConnector).parameters
    return {"socket_factory": make_live_socket} if known else {}


async def _read(reply: aiohttp.ClientResponse) -> bytes:
    """Of a compressed reply what it unpacks to counts: a few kilobytes can be all the memory there is."""
    chunks, size = [], 0
    async for chunk in reply.content.iter_any():
        size += len(chunk)
        if size > MAX_BODY:
            reply.close()
            raise Broken(f"the reply is larger than {MAX_BODY} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _words(error: BaseException) -> str:
    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number).lower()
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__

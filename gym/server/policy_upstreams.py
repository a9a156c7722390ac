"""Endpoints that rollouts bring along: an `Upstream` each, with its own limiter, forgotten when it is not used.

Where a URL leads is checked where the connection is made, so that a name cannot mean another address by then.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gym.server.carrier import import_aiohttp, open_session
from gym.server.endpoints import find_proxy
from gym.server.upstream import Upstream
from gym.wire.addresses import is_address
from gym.wire.allowed_hosts import AllowedHosts
from gym.wire.failures import RolloutError
from gym.wire.policy_endpoint import URL, PolicyEndpoint

if TYPE_CHECKING:
    import aiohttp

MAX_IDLE = 1024  # endpoints of which no call is under way
IDLE_SECONDS = 300.0
RESOLVE_SECONDS = 10.0
LOOPBACK = frozenset(("localhost", "0.0.0.0", "::", "::1"))


class PolicyUpstreams:
    """Of one model server, whose limits hold for each of them. `host` is what the machine is called from inside a
    container, where loopback is the container itself."""

    def __init__(
        self,
        allowed: AllowedHosts,
        *,
        configured: Sequence[str] = (),
        max_concurrent: int | None = None,
        timeout: float = 3600.0,
        host: str = "",
    ) -> None:
        self.allowed = allowed
        self._configured = frozenset(map(_place, configured))  # a rollout that brings its own key may use them
        self._options: dict[str, Any] = {"max_concurrent": max_concurrent, "timeout": timeout}
        self._host = host
        self._kept: dict[tuple[tuple[str, ...], str], Upstream] = {}  # ordered by last use
        self._proxies: set[str] = set()
        self._session: aiohttp.ClientSession | None = None

    async def find(self, policy: PolicyEndpoint) -> Upstream:
        """The upstream of these URLs and this key. `row`: the URL is not one that this stack may ask."""
        place = (policy.urls, policy.key)
        found = self._kept.pop(place, None)
        if found is None:
            urls = [await self._check(url) for url in policy.urls]
            found = self._kept.pop(place, None) or self._make(urls, policy.key)
        self._kept[place] = found
        self._forget()
        return found

    def _make(self, urls: Sequence[str], key: str) -> Upstream:
        """With nothing of what is configured for another endpoint: neither its key nor its headers."""
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return Upstream(urls, headers=headers, secrets=(key,), session=self._open, **self._options)

    def status(self) -> dict[str, Any]:
        """For `/healthz`."""
        return {"policy_endpoints": len(self._kept)} if self._kept else {}

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def may_connect(self, host: str, port: int, address: str) -> bool:
        return host in self._proxies or self._is_named(host, port) or self.allowed.allows_address(address)

    def refusal(self, host: str, address: str = "") -> RolloutError:
        where = f"{host}, which is {address}" if address and address != host else host
        what = f"{URL}: this stack does not ask {where} for rollouts; policy_urls allows: {self.allowed}"
        return RolloutError("row", f"{what}. {self._advice(host)}")

    async def _check(self, url: str) -> str:
        """The URL as it is reached from here. Names are checked when they are connected to."""
        host, port = _place(url)
        literal = "127.0.0.1" if host == "localhost" else host
        is_named = self._is_named(host, port)
        if is_address(literal) and not is_named and not self.allowed.allows_address(literal):
            raise self.refusal(host)
        if (proxy := find_proxy(url)) is not None:
            self._proxies.add(urlsplit(proxy).hostname or "")
            if not is_address(literal) and not is_named:
                await self._check_behind_proxy(host)
        return self._from_inside(url, host)

    def _advice(self, host: str) -> str:
        entries = ",".join((*self.allowed.entries, host))
        return f"To allow it, start the stack with policy_urls=[{entries}] (README of the model server)"

    async def _check_behind_proxy(self, host: str) -> None:
        """A proxy resolves the name by itself: what can be known of it is what it means here and now."""
        addresses = await _resolve(host)
        if not addresses:
            what = f"{URL}: {host} is behind a proxy and cannot be looked up here, so it is not known where it leads"
            raise RolloutError("row", f"{what}. {self._advice(host)}")
        for address in addresses:
            if not self.allowed.allows_address(address):
                raise self.refusal(host, address)

    def _is_named(self, host: str, port: int) -> bool:
        return host == self._host or (host, port) in self._configured or self.allowed.allows_name(host)

    def _from_inside(self, url: str, host: str) -> str:
        if not self._host or not (host in LOOPBACK or host.startswith("127.")):
            return url
        parts = urlsplit(url)
        return parts._replace(netloc=self._host + (f":{parts.port}" if parts.port else "")).geturl()

    def _open(self) -> aiohttp.ClientSession:
        """One for all of them: connections are kept by host, although each episode may have a URL of its own."""
        if self._session is None:
            resolver = _CheckedResolver(import_aiohttp().ThreadedResolver(), self)
            self._session = open_session(resolver=resolver)
        return self._session

    def _forget(self) -> None:
        """The oldest first. One with a call under way stays: calls are bounded by who makes them."""
        now = asyncio.get_running_loop().time()
        surplus = len(self._kept) - MAX_IDLE
        for place, one in list(self._kept.items())[:-1]:
            if surplus <= 0 and now - one.used < IDLE_SECONDS:
                break
            if not one.in_flight:
                del self._kept[place]
                surplus -= 1


class _CheckedResolver:
    """aiohttp connects to what this returns and to nothing else."""

    def __init__(self, resolver: Any, upstreams: PolicyUpstreams) -> None:
        self._resolver = resolver
        self._upstreams = upstreams

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[Any]:
        found: list[Any] = await self._resolver.resolve(host, port, family)
        for one in found:
            if not self._upstreams.may_connect(host, port, str(one["host"])):
                raise self._upstreams.refusal(host, str(one["host"]))
        return found

    async def close(self) -> None:
        await self._resolver.close()


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


async def _resolve(host: str) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return []
    return [str(one[4][0]) for one in found]

"""The addresses of one provider: which there are now, which of them a rollout keeps, which are out for the moment.

The configured ones hold until others are said at run time; those stand in a file that is looked at before each call.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import urllib.request
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from gym.errors import UserError
from gym.labels import HOST_FROM_INSIDE
from gym.wire.failures import RolloutError
from gym.wire.upstream_file import FILE, Upstreams, origin_of

log = logging.getLogger("gym.server")

MAX_BOUND = 100_000  # rollouts whose address is remembered; beyond it the oldest are asked for again
MAX_SECRETS = 100
PROBE_SECONDS, LONGEST_PROBE_SECONDS = 1.0, 15.0  # between two questions to an address that could not be reached


class Endpoints:
    """`is_there` asks an address whether it can be reached again."""

    def __init__(
        self,
        base_urls: str | Sequence[str],
        headers: Mapping[str, str],
        secrets: Sequence[str],
        is_there: Callable[[str], Awaitable[bool]],
        folder: str = "",
    ) -> None:
        urls = (base_urls,) if isinstance(base_urls, str) else tuple(base_urls)
        self._configured = tuple(check_url(url) for url in urls)
        self._configured_headers = dict(headers)
        self._configured_secrets = tuple(secrets)
        self._is_there = is_there
        self._file = Path(folder) / FILE if folder else None
        self._stamp: tuple[int, int] | None = None
        self._bound: OrderedDict[str, str] = OrderedDict()
        self._probes: dict[str, asyncio.Task[None]] = {}
        self._turn = 0
        self.secrets: tuple[str, ...] = ()
        self.generation = 0  # grows whenever the addresses change
        self._use_configured()

    def look(self) -> None:
        """One `stat`; takes the new addresses where the file has changed."""
        if self._file is None:
            return
        try:
            found = os.stat(self._file)  # noqa: PTH116 (before each call: no object for it)
        except OSError:
            stamp = None
        else:
            stamp = (found.st_ino, found.st_mtime_ns)
        if stamp != self._stamp:
            self._stamp = stamp
            self._read(self._file if stamp else None)

    def order(self, key: str) -> list[str]:
        """The addresses in the order in which a call of this caller tries them. Without a key they take turns."""
        if not self.urls:
            how = "set its base URL, or say it at run time: PUT /admin/models/NAME/upstreams"
            raise RolloutError("model", f"this model has no address yet; {how}", retryable=True)
        if len(self.urls) == 1:
            return list(self.urls)
        first = self._first(key)
        rotated = self.urls[first:] + self.urls[:first]
        order = [url for url in rotated if url not in self._probes] + [url for url in rotated if url in self._probes]
        bound = self._bound.get(key) if key else None
        if bound in self.urls and bound not in self._probes:
            order.remove(bound)
            order.insert(0, bound)
        return order

    def bind(self, key: str, url: str) -> None:
        """It has answered this caller, who stays with it."""
        if not key or len(self.urls) == 1:
            return
        self._bound[key] = url
        self._bound.move_to_end(key)
        if len(self._bound) > MAX_BOUND:
            self._bound.popitem(last=False)

    def lose(self, url: str) -> None:
        """It could not be reached: no call goes there before it answers a probe, as long as there are others."""
        if len(self.urls) > 1 and url in self.urls and url not in self._probes:
            log.warning("the model at %s cannot be reached; calls go to the others", show_url(url))
            self._probes[url] = asyncio.get_running_loop().create_task(self._probe(url), name=f"probe of {url}")

    def headers(self, url: str) -> Mapping[str, str]:
        """The configured key goes to configured hosts only, whatever is said at run time."""
        return self._headers.get(url, {})

    def proxy(self, url: str) -> str | None:
        return self._proxies.get(url)

    def health(self) -> dict[str, Any]:
        health: dict[str, Any] = {"urls": [show_url(url) for url in self.urls]}
        if self._probes:
            health["unreachable"] = [show_url(url) for url in self.urls if url in self._probes]
        if self._file is not None:
            health["version"] = self.version
        return health

    async def aclose(self) -> None:
        tasks = list(self._probes.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _first(self, key: str) -> int:
        if key:
            return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % len(self.urls)
        self._turn += 1
        return self._turn % len(self.urls)

    async def _probe(self, url: str) -> None:
        wait = PROBE_SECONDS
        try:
            while url in self.urls:
                await asyncio.sleep(wait)
                if await self._is_there(url):
                    break
                wait = min(wait * 2, LONGEST_PROBE_SECONDS)
        finally:
            self._probes.pop(url, None)

    def _read(self, file: Path | None) -> None:
        if file is None:
            self._use_configured()
            return
        try:
            given = Upstreams.model_validate_json(file.read_bytes())
        except (OSError, ValidationError) as error:
            log.error("%s cannot be read, the addresses stay as they are: %s", file, type(error).__name__)
            return
        own = {"authorization": f"Bearer {given.api_key}"} if given.api_key else {}
        known = {origin_of(url) for url in self._configured}
        headers = {
            url: {**(self._configured_headers if origin_of(url) in known else {}), **given.headers, **own}
            for url in given.base_urls
        }
        self._use(given.base_urls, headers, (given.api_key, *given.headers.values()), given.model, given.version)
        log.info("the model's addresses are now: %s", ", ".join(map(show_url, self.urls)))

    def _use_configured(self) -> None:
        headers = dict.fromkeys(self._configured, self._configured_headers)
        self._use(self._configured, headers, (), "", 0)

    def _use(
        self,
        urls: tuple[str, ...],
        headers: Mapping[str, Mapping[str, str]],
        secrets: Sequence[str],
        model: str,
        version: int,
    ) -> None:
        self.urls = urls
        self._headers = headers
        self._proxies = {url: find_proxy(url) for url in urls}
        known = (*self._configured_secrets, *secrets, *self.secrets)  # an earlier key may still come back in an error
        self.secrets = tuple(dict.fromkeys(one for one in known if len(one) >= 6))[:MAX_SECRETS]
        self.model = model  # "" where the configured name holds
        self.version = version
        self.generation += 1


def show_url(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def what_to_check(url: str) -> str:
    """Where a model cannot be reached. One of this machine may answer everybody but containers."""
    if urlsplit(url).hostname == HOST_FROM_INSIDE:
        return (
            "Containers call this machine by that name. Is the model running, and does it listen on 0.0.0.0, not on "
            "127.0.0.1 alone?"
        )
    return "Is it running, is the base URL right?"


def check_url(url: str) -> str:
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = url.strip().rpartition("@")[2].partition("?")[0]
        raise UserError(
            f"the model's base URL is not an http(s) address: {shown!r}", "for example http://127.0.0.1:8000/v1"
        )
    return url.strip().rstrip("/")


def find_proxy(url: str) -> str | None:
    """The environment's proxy. aiohttp's own `trust_env` asks a thread for it, and for ~/.netrc, at every request."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    if not proxies or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")

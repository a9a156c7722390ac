"""The web as it is: the Custom Search API, and pages fetched within limits of size, time and place."""

from __future__ import annotations

import asyncio
import codecs
import json
import re
import zlib
from collections.abc import Sequence
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from guard import Guard, Refused
from yarl import URL

from gym import __version__
from gym.labels import REDACTED

SEARCH_SECONDS, PAGE_SECONDS = 10.0, 20.0
MAX_BYTES = 5 * 2**20
MAX_REDIRECTS = 5
MAX_URL = 4096
_READABLE = ("text/html", "application/xhtml+xml", "text/plain")
_HEADERS = {"user-agent": f"compose-gym/{__version__}", "accept": "text/html,*/*;q=0.5", "accept-encoding": "gzip"}
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset=[\"']?([\w-]{1,40})", re.IGNORECASE)
_NO_CHARSETS = frozenset(("idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape"))


class CheckedResolver(AbstractResolver):
    """What it gives back is what is connected to: a name that changes its mind in between changes nothing."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._names = ThreadedResolver()

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        found = await self._names.resolve(host, port, family)
        for one in found:
            self._guard.check_address(one["host"], port)
        return found

    async def close(self) -> None:
        await self._names.close()


class LiveWeb:
    def __init__(self, key: str, cx: str, search_url: str, guard: Guard) -> None:
        self._key, self._cx, self._search_url = key, cx, search_url
        self._guard = guard
        connector = aiohttp.TCPConnector(
            resolver=CheckedResolver(guard), use_dns_cache=False, limit=64, force_close=True
        )
        # No cookies: one rollout's page is not to know of another's. No proxy: it would resolve names itself.
        self._pages = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), headers=_HEADERS, auto_decompress=False
        )
        self._searches = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=True)

    async def close(self) -> None:
        await self._pages.close()
        await self._searches.close()

    async def search(self, query: str) -> dict[str, Any]:
        """The reply of the API; what went wrong is raised without the key."""
        params = {"key": self._key, "cx": self._cx, "q": query}
        try:
            async with (
                asyncio.timeout(SEARCH_SECONDS),
                self._searches.get(self._search_url, params=params) as reply,
            ):
                body = await reply.content.read(MAX_BYTES)
                while len(body) < MAX_BYTES and (more := await reply.content.read(MAX_BYTES - len(body))):
                    body += more
        except TimeoutError:
            raise ConnectionError(f"the search did not answer within {SEARCH_SECONDS:g} s") from None
        except aiohttp.ClientError as error:
            raise ConnectionError(self._mask(f"{type(error).__name__}: {error}")) from None
        if reply.status != 200:
            raise ConnectionError(
                self._mask(f"the search answered {reply.status}: {body[:500].decode('utf-8', 'replace')}")
            )
        parsed = json.loads(body)
        return parsed if isinstance(parsed, dict) else {"items": parsed}

    async def fetch(self, address: str) -> str | None:
        """The HTML or text of a page; None for one that has neither."""
        if len(address) > MAX_URL:
            raise Refused(f"an address has at most {MAX_URL} characters")
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                return await self._follow(URL(address))
        except TimeoutError:
            raise ConnectionError(f"the page was not there within {PAGE_SECONDS:g} s") from None

    async def _follow(self, url: URL) -> str | None:
        for _ in range(MAX_REDIRECTS + 1):
            self._guard.check_scheme(url.scheme)
            if not url.host:
                raise Refused("the address names no host")
            self._guard.check_literal(url.host, url.port or 0)
            async with self._pages.get(url, allow_redirects=False) as reply:
                target = reply.headers.get("location")
                if reply.status not in (301, 302, 303, 307, 308) or target is None:
                    return await _read_page(reply)
                url = url.join(URL(target))
        raise ConnectionError(f"more than {MAX_REDIRECTS} redirects")

    def _mask(self, text: str) -> str:
        return text.replace(self._key, REDACTED) if self._key else text


async def _read_page(reply: aiohttp.ClientResponse) -> str | None:
    if reply.status >= 400 or reply.content_type not in _READABLE:
        return None
    encoding = reply.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip", "deflate", ""):
        raise ConnectionError(f"the page is packed as {encoding}")
    unpack = None if encoding in ("identity", "") else zlib.decompressobj(wbits=47)
    body = bytearray()
    async for chunk in reply.content.iter_chunked(65536):
        room = MAX_BYTES - len(body)
        body += chunk[:room] if unpack is None else unpack.decompress(chunk, room)
        if len(body) >= MAX_BYTES:
            break
    return _decode(bytes(body), reply.charset)


def _decode(body: bytes, named: str | None) -> str:
    found = _CHARSET.search(body[:4096])
    names: Sequence[str] = [name for name in (named, found.group(1).decode() if found else None) if name]
    for name in names:
        try:
            if codecs.lookup(name).name not in _NO_CHARSETS:
                return body.decode(name, "replace")
        except (LookupError, ValueError):
            continue  # unknown, or no encoding of text
    return body.decode("utf-8", "replace")

"""Calls to an inference provider: pooled, bounded, repeated only where the provider did nothing, secrets kept.

Needs the extra `upstream`. aiohttp is imported at the first call, so a server that only stands by stays small.
"""

from __future__ import annotations

import asyncio
import email.utils
import hashlib
import importlib
import importlib.util
import os
import random
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import orjson

from gym.errors import UserError
from gym.labels import REDACTED
from gym.server.limiter import Closed, Limiter
from gym.wire.failures import FailureKind, RolloutError

if TYPE_CHECKING:
    import aiohttp

PATIENCE = frozenset((429, 502, 503, 504, 529))  # the provider did not do it and asks to be asked again
THROTTLED = frozenset((429, 529))  # and 503 with Retry-After
ROW_FAULT = frozenset((400, 413, 422))
ATTEMPTS = 5
FIRST_WAIT, LONGEST_WAIT = 0.25, 60.0
IDLE_SECONDS = 4.0  # vLLM closes idle connections after 5: a request must never meet that moment
CONNECT_SECONDS = 10.0
TIMEOUT_SECONDS = 3600.0  # where the caller names no deadline


class Caller(NamedTuple):
    """Whose call is being answered: what keeps its calls together, and the loop time at which nobody waits any more."""

    key: str = ""
    ends: float | None = None


caller: ContextVar[Caller] = ContextVar("caller", default=Caller())  # noqa: B039 (a Caller never changes)


class UpstreamError(RolloutError):
    """The provider's refusal. `overflow`: the prompt left no room for an answer."""

    def __init__(self, message: str, answered: int, *, retryable: bool, overflow: bool = False) -> None:
        status = 422 if answered in ROW_FAULT else 502
        super().__init__("model", message, retryable=retryable, status=status)
        self.answered = answered
        self.overflow = overflow


class Outcome(NamedTuple):
    """One try. `wait` is how long the provider wants to be left alone; None: another try is unsafe or useless."""

    reply: dict[str, Any]
    failure: RolloutError | None = None
    wait: float | None = None
    unreachable: bool = False
    throttled: bool = False  # too many at once, says the provider


class Upstream:
    """One provider, at one or several base URLs. A caller's key binds its calls to one of them."""

    def __init__(
        self,
        base_urls: str | Sequence[str],
        *,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        max_concurrent: int | None = None,
        secrets: Sequence[str] = (),
        attempts: int = ATTEMPTS,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        if importlib.util.find_spec("aiohttp") is None:
            raise UserError("aiohttp is needed to call a provider", "put `compose-gym[upstream]` into requirements.txt")
        urls = (base_urls,) if isinstance(base_urls, str) else tuple(base_urls)
        self.base_urls = tuple(_check_url(url) for url in urls)
        self._proxies = {url: _proxy(url) for url in self.base_urls}
        self._headers = {"content-type": "application/json", "accept": "application/json", **(headers or {})}
        self._suffix = f"?{urlencode(query)}" if query else ""
        self._limiter = Limiter(max_concurrent)
        self._secrets = tuple(secret for secret in secrets if len(secret) >= 6)
        self._attempts = attempts
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None
        self._turn = 0
        self.last_error = ""

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The provider's reply; `UpstreamError` or `RolloutError` of kind `model` with the provider's own words."""
        who = caller.get()
        ends = asyncio.get_running_loop().time() + self._timeout
        ends = ends if who.ends is None else min(ends, who.ends)
        data = orjson.dumps(body)
        try:
            reply = await self._post(path, data, self._first_url(who.key), ends)
        except RolloutError as error:
            self.last_error = error.message
            raise
        self.last_error = ""
        return reply

    def health(self) -> dict[str, Any]:
        """For `/healthz`: a provider that is down does not make its server unready."""
        urls = [show_url(url) for url in self.base_urls]
        told: dict[str, Any] = {"urls": urls, "last_error": self.last_error}
        if self._limiter.throttled:
            told |= {"throttled": self._limiter.throttled, "at_once": self._limiter.limit}
        return {"upstream": told}

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, path: str, data: bytes, first: int, ends: float) -> dict[str, Any]:
        wait, tries = FIRST_WAIT, self._attempts + len(self.base_urls) - 1
        asked = counted = 0
        while True:
            url = self.base_urls[(first + asked) % len(self.base_urls)]
            asked += 1
            outcome, patient = await self._try_in_turn(url, path, data, ends)
            if outcome.failure is None:
                return outcome.reply
            counted += not patient
            pause = max(outcome.wait or 0.0, 0.0 if patient else random.uniform(wait / 2, wait))
            if outcome.unreachable and asked < len(self.base_urls):
                continue
            if outcome.wait is None or counted == tries or pause > ends - asyncio.get_running_loop().time():
                outcome.failure.what = outcome.failure.message = _count(outcome.failure.message, asked)
                raise outcome.failure
            if not patient:  # else the limiter says when
                await asyncio.sleep(pause)
                wait = min(wait * 2, LONGEST_WAIT)

    async def _try_in_turn(self, base: str, path: str, data: bytes, ends: float) -> tuple[Outcome, bool]:
        """One try when the limiter lets it through; whether it was refused for now, and there is patience for more."""
        try:
            began = await self._limiter.enter(ends)
        except Closed as closed:
            told = f"{show_url(base + path)} is asked too much for this rollout's deadline: {self.last_error or 'busy'}"
            kind: FailureKind = "model" if closed.seconds else "timeout"
            return Outcome({}, RolloutError(kind, told, retryable=True)), False
        try:
            outcome = await self._try(base, path, data, ends)
        except BaseException:
            self._limiter.leave()
            raise
        if outcome.throttled:
            assert outcome.failure is not None
            self.last_error = outcome.failure.message
            return outcome, self._limiter.throttle(began, outcome.wait or 0.0)
        (self._limiter.leave if outcome.failure else self._limiter.succeed)()
        return outcome, False

    async def _try(self, base: str, path: str, data: bytes, ends: float) -> Outcome:
        client = importlib.import_module("aiohttp")
        url = base + path
        call = self._open().post(
            url + self._suffix, data=data, headers=self._headers, proxy=self._proxies[base], allow_redirects=False
        )
        try:
            async with asyncio.timeout_at(ends), call as reply:
                return self._read(url, reply.status, await reply.read(), reply.headers)
        except (client.ClientConnectorError, client.ConnectionTimeoutError) as error:
            reason = (
                f"cannot reach the model at {show_url(url)}: {_words(error)}. Is it running, is the base URL right?"
            )
            return Outcome({}, RolloutError("model", self._scrub(reason), retryable=True), 0.0, unreachable=True)
        except TimeoutError:
            late = f"{show_url(url)} had not answered when the time was up"
            return Outcome({}, RolloutError("timeout", late, retryable=True))
        except (client.ClientError, OSError) as error:
            broken = f"the connection to {show_url(url)} broke after the request was sent: {_words(error)}"
            return Outcome({}, RolloutError("model", self._scrub(broken), retryable=True))

    def _read(self, url: str, status: int, body: bytes, headers: Mapping[str, str]) -> Outcome:
        if status == 200:
            parsed = _parse(body)
            if isinstance(parsed, dict):
                return Outcome(parsed)
            text = self._scrub(body[:300].decode("utf-8", "replace"))
            what = f"{show_url(url)} answered 200 with no JSON object: {text}"
            return Outcome({}, UpstreamError(what, status, retryable=True))
        words = self._scrub(upstream_words(body) or headers.get("location", ""))
        message = f"{show_url(url)} answered {status}: {words}"
        if status in PATIENCE and b"insufficient_quota" not in body:
            wish = retry_after(headers)
            failure = UpstreamError(message, status, retryable=True)
            return Outcome(
                {}, failure, wish or 0.0, throttled=status in THROTTLED or (status == 503 and wish is not None)
            )
        retryable = status >= 500 or status in (408, 409, 425)
        overflow = status == 400 and is_overflow(words)
        return Outcome({}, UpstreamError(message, status, retryable=retryable, overflow=overflow))

    def _scrub(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return text

    def _first_url(self, key: str) -> int:
        """The same key always starts at the same URL; without a key they take turns."""
        if len(self.base_urls) == 1:
            return 0
        if key:
            return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % len(self.base_urls)
        self._turn += 1
        return self._turn % len(self.base_urls)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            client = importlib.import_module("aiohttp")
            self._session = client.ClientSession(
                connector=client.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
                timeout=client.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                cookie_jar=client.DummyCookieJar(),
            )
        return self._session


def upstream_words(body: bytes) -> str:
    """What a provider says in an error: `error.message`, `message`, `detail`, or the text itself."""
    parsed = _parse(body)
    if isinstance(parsed, dict):
        told = parsed.get("error", parsed)
        if isinstance(told, dict):
            told = told.get("message") or told.get("detail") or told
        return told if isinstance(told, str) else orjson.dumps(told).decode()[:1000]
    return body[:1000].decode("utf-8", "replace").strip()


def is_overflow(words: str) -> bool:
    """No room for an answer. "Unsupported parameter: 'max_tokens'" names the word too and is something else."""
    said = words.lower()
    if "context length" in said or "context_length" in said:
        return True
    return "max_tokens" in said and not any(
        word in said for word in ("unsupported", "not supported", "unknown", "extra")
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds; both spellings of `Retry-After` and the one in milliseconds."""
    try:
        if "retry-after-ms" in headers:
            return max(float(headers["retry-after-ms"]) / 1000, 0.0)
        return max(float(headers["retry-after"]), 0.0)
    except KeyError:
        return None
    except ValueError:
        moment = email.utils.parsedate_tz(headers.get("retry-after", ""))
        return max(email.utils.mktime_tz(moment) - time.time(), 0.0) if moment else None


def show_url(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def _check_url(url: str) -> str:
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(
            f"the model's base URL is not an http(s) address: {show_url(url)!r}", "for example http://127.0.0.1:8000/v1"
        )
    return url.strip().rstrip("/")


def _proxy(url: str) -> str | None:
    """The environment's proxy. aiohttp's own `trust_env` asks a thread for it, and for ~/.netrc, at every request."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    if not proxies or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")


def _count(message: str, attempts: int) -> str:
    return f"{message} ({attempts} tries)" if attempts > 1 else message


def _parse(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _words(error: BaseException) -> str:
    cause = getattr(error, "os_error", None) or error
    number = getattr(cause, "errno", None)
    if isinstance(number, int) and number > 0:
        return os.strerror(number).lower()
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__

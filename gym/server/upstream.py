"""Calls to an inference provider: pooled, bounded, repeated only where the provider did nothing, secrets kept.

Needs the extra `upstream`. aiohttp is imported at the first call that needs it, so other servers stay small.
"""

from __future__ import annotations

import asyncio
import importlib.util
import random
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlencode, urlsplit

from gym.errors import UserError
from gym.http.tracing import TRACING
from gym.labels import REDACTED
from gym.server.carrier import Broken, Carried, Carrier, Unreachable
from gym.server.endpoints import Endpoints, show_url, what_to_check
from gym.server.limiter import Closed, Limiter, pause
from gym.server.provider_replies import is_overflow, parse_reply, retry_after, upstream_words
from gym.wire.failures import FailureKind, RolloutError
from gym.wire.json_text import write_json
from gym.wire.policy_endpoint import PolicyEndpoint
from gym.wire.sse_reading import events_to_reply

if TYPE_CHECKING:
    import aiohttp

RETRY_STATUSES = frozenset((429, 502, 503, 504, 529))  # the provider did not do it and asks to be asked again
THROTTLED = frozenset((429, 529))  # and 503 with Retry-After
ROW_FAULT = frozenset((400, 413, 422))
ATTEMPTS = 5
FIRST_WAIT, LONGEST_WAIT = 0.25, 60.0
TIMEOUT_SECONDS = 3600.0  # where the caller names no deadline
SHORTEST_TRY = 0.01  # seconds before the deadline that are worth another one


class CallContext(NamedTuple):
    """Whose call is being answered: what keeps its calls together, and the loop time of its deadline."""

    key: str = ""
    deadline: float | None = None
    policy: PolicyEndpoint | None = None  # where its rollout wants it answered


caller: ContextVar[CallContext] = ContextVar("caller", default=CallContext())  # noqa: B039 (a CallContext never changes)


class UpstreamError(RolloutError):
    """The provider's refusal. `overflow`: the prompt left no room for an answer."""

    def __init__(self, message: str, answered: int, *, retryable: bool, overflow: bool = False) -> None:
        status = 422 if answered in ROW_FAULT else 502
        super().__init__("model", message, retryable=retryable, status=status)
        self.answered = answered
        self.overflow = overflow


class TryOutcome(NamedTuple):
    """One try. `wait` is how long the provider wants to be left alone; None: another try is unsafe or useless."""

    reply: dict[str, Any]
    failure: RolloutError | None = None
    wait: float | None = None
    unreachable: bool = False
    throttled: bool = False  # too many at once, says the provider

    def rest(self, refusals: int) -> float:
        """Seconds before this call, which was refused so often before, is retried."""
        return pause(refusals, self.wait or 0.0)


class Policies(Protocol):
    """Upstreams that rollouts bring along: `gym.server.policy_upstreams`."""

    async def find(self, policy: PolicyEndpoint) -> Upstream: ...

    def status(self) -> dict[str, Any]: ...

    async def aclose(self) -> None: ...


class Upstream:
    """One provider, at one or several base URLs. A caller's key binds its calls to one of them.

    `live` is the folder of `Settings.upstreams`: what is said there at run time takes the place of the base URLs.
    `session`: one that others use too, and close.
    """

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
        live: str = "",
        policies: Policies | None = None,
        session: Callable[[], aiohttp.ClientSession] | None = None,
    ) -> None:
        if importlib.util.find_spec("aiohttp") is None:
            raise UserError("aiohttp is needed to call a provider", "put `compose-gym[upstream]` into requirements.txt")
        common = {"content-type": "application/json", "accept": "application/json"}
        self._endpoints = Endpoints(base_urls, headers or {}, secrets, self._is_there, live)
        self._headers = common
        self._suffix = f"?{urlencode(query)}" if query else ""
        self._max_concurrent = max_concurrent
        self._limiter = Limiter(max_concurrent)
        self._limited = self._endpoints.generation  # the addresses of which the limiter has learned
        self._attempts = attempts
        self._timeout = timeout
        self._policies = policies
        self._carrier = Carrier(session)
        self.last_error = ""
        self.speaks = ""  # the dialect that it was found to speak, where none was configured
        self.in_flight = 0
        self.used = 0.0  # the loop's time at the last call's beginning or end

    @property
    def base_urls(self) -> tuple[str, ...]:
        self._endpoints.look()
        return self._endpoints.urls

    @property
    def model(self) -> str:
        """What the model is called there, where that was said at run time."""
        self._endpoints.look()
        return self._endpoints.model

    async def of_caller(self) -> Upstream:
        """The one that the call being answered goes to: this one, or that of its rollout."""
        policy = caller.get().policy
        if self._policies is None or policy is None or not policy.urls:
            return self
        return await self._policies.find(policy)

    async def post(self, path: str, body: Mapping[str, Any], *, root: bool = False) -> dict[str, Any]:
        """The provider's reply; `UpstreamError` or `RolloutError` of kind `model` with the provider's own words.

        `root`: the path stands beside `/v1`, not below it.
        """
        upstream = await self.of_caller()
        if upstream is not self:
            return await upstream.post(path, body, root=root)
        return await self._post_timed(path, body, root)

    async def _post_timed(self, path: str, body: Mapping[str, Any], root: bool) -> dict[str, Any]:
        who, loop = caller.get(), asyncio.get_running_loop()
        self.used = loop.time()
        deadline = self.used + self._timeout
        deadline = deadline if who.deadline is None else min(deadline, who.deadline)
        if who.policy is not None and who.policy.model:
            body = {**body, "model": who.policy.model}
        self.in_flight += 1
        try:
            reply = await self._post(path, write_json(body), who.key, deadline, root)
        except RolloutError as error:
            self.last_error = error.message
            raise
        finally:
            self.in_flight -= 1
            self.used = loop.time()
        self.last_error = ""
        return reply

    def health(self) -> dict[str, Any]:
        """For `/healthz`: a provider that is down does not make its server unready."""
        self._endpoints.look()
        status = {**self._endpoints.health(), "last_error": self.last_error}
        if self._policies is not None:
            status |= self._policies.status()
        return {"upstream": status | self._limiter.status()}

    async def aclose(self) -> None:
        if self._policies is not None:
            await self._policies.aclose()
        await self._endpoints.aclose()
        await self._carrier.aclose()

    async def _post(self, path: str, data: bytes, key: str, deadline: float, root: bool) -> dict[str, Any]:
        wait, asked, counted = FIRST_WAIT, 0, 0
        tried: list[str] = []
        while True:
            url, others = self._pick(key, tried)
            asked += 1
            outcome, throttled = await self._try_in_turn(url, path, data, deadline, root)
            if outcome.failure is None:
                self._endpoints.bind(key, url)
                return outcome.reply
            if outcome.unreachable:
                self._endpoints.lose(url)
                if others and asked < len(self._endpoints.urls):
                    continue
            counted += not throttled
            rest = outcome.rest(asked - counted - 1) if throttled else max(outcome.wait or 0.0, _jitter(wait))
            left = deadline - asyncio.get_running_loop().time()
            if throttled and not outcome.wait:  # no time was named: the last try is before the deadline
                rest = min(rest, left / 2)
            max_tries = self._attempts + len(self._endpoints.urls) - 1
            if outcome.wait is None or counted >= max_tries or rest > left - SHORTEST_TRY:
                outcome.failure.what = outcome.failure.message = _count(outcome.failure.message, asked)
                raise outcome.failure
            if throttled:
                await self._limiter.rest(rest)
            else:
                await asyncio.sleep(rest)
                wait = min(wait * 2, LONGEST_WAIT)

    def _pick(self, key: str, tried: list[str]) -> tuple[str, bool]:
        """The next address of this call, and whether there are more that it has not tried. Changes are heard here."""
        self._endpoints.look()
        if self._limited != self._endpoints.generation:
            self._limiter, self._limited = Limiter(self._max_concurrent), self._endpoints.generation
            self.speaks = ""
        order = self._endpoints.order(key)
        fresh = [url for url in order if url not in tried]
        if not fresh:
            tried.clear()
            fresh = order
        tried.append(fresh[0])
        return fresh[0], len(fresh) > 1

    async def _try_in_turn(
        self, base: str, path: str, data: bytes, deadline: float, root: bool
    ) -> tuple[TryOutcome, bool]:
        """One try when the limiter lets it through; whether it was refused for now and another try is allowed."""
        limiter = self._limiter
        try:
            number = await limiter.enter(deadline)
        except Closed as closed:
            message = (
                f"{show_url(base + path)} is asked too much for this rollout's deadline: {self.last_error or 'busy'}"
            )
            kind: FailureKind = "model" if closed.seconds else "timeout"
            return TryOutcome({}, RolloutError(kind, message, retryable=True)), False
        try:
            outcome = await self._try(base, path, data, deadline, root)
        except BaseException:
            limiter.leave()
            raise
        if outcome.throttled:
            assert outcome.failure is not None
            self.last_error = outcome.failure.message
            return outcome, limiter.throttle(number, outcome.wait or 0.0)
        if outcome.failure:
            limiter.leave()
        else:
            limiter.succeed(number)
        return outcome, False

    async def _try(self, base: str, path: str, data: bytes, deadline: float, root: bool) -> TryOutcome:
        url = (base.removesuffix("/v1") if root else base) + path
        headers, proxy = {**self._headers, **self._endpoints.headers(base)}, self._endpoints.proxy(base)
        try:
            reply = await self._carry(url, data, headers, proxy, deadline)
            return self._read(url, reply.status, reply.body, reply.headers)
        except Unreachable as error:
            reason = f"cannot reach the model at {show_url(url)}: {error}. {what_to_check(url)}"
            return TryOutcome({}, RolloutError("model", self._scrub(reason), retryable=True), 0.0, unreachable=True)
        except TimeoutError:
            late = f"{show_url(url)} had not answered when the time was up"
            return TryOutcome({}, RolloutError("timeout", late, retryable=True))
        except RolloutError as error:  # of an event stream
            return TryOutcome({}, error)
        except Broken as error:
            broken = f"the connection to {show_url(url)} broke after the request was sent: {error}"
            return TryOutcome({}, RolloutError("model", self._scrub(broken), retryable=True))

    async def _carry(
        self, url: str, data: bytes, headers: Mapping[str, str], proxy: str | None, deadline: float
    ) -> Carried:
        if TRACING.tracer is None:
            return await self._carrier.post(url + self._suffix, data, headers, proxy=proxy, deadline=deadline)
        shown = {"http.request.method": "POST", "url.full": show_url(url), "server.address": urlsplit(url).hostname}
        with TRACING.tracer.span("POST", "client", shown) as span:
            reply = await self._carrier.post(url + self._suffix, data, headers, proxy=proxy, deadline=deadline)
            span.set({"http.response.status_code": reply.status})
            if reply.status >= 400:
                span.fail(str(reply.status), "")
            return reply

    def _read(self, url: str, status: int, body: bytes, headers: Mapping[str, str]) -> TryOutcome:
        if status == 200:
            if headers.get("content-type", "").startswith("text/event-stream"):
                return TryOutcome(events_to_reply(body))
            parsed = parse_reply(body)
            if isinstance(parsed, dict):
                return TryOutcome(parsed)
            text = self._scrub(body[:300].decode("utf-8", "replace"))
            no_number = " (it holds NaN, which is not a number)" if b"NaN" in body else ""
            if packed := headers.get("content-encoding"):
                no_number, text = "", f"its body is in {packed[:40]}, which was not asked for"
            what = f"{show_url(url)} answered 200 with no JSON object{no_number}: {text}"
            return TryOutcome({}, UpstreamError(what, status, retryable=True))
        words = self._scrub(upstream_words(body) or headers.get("location", ""))
        message = f"{show_url(url)} answered {status}: {words}"
        if status in RETRY_STATUSES and b"insufficient_quota" not in body:
            wish = retry_after(headers)
            failure = UpstreamError(message, status, retryable=True)
            return TryOutcome(
                {}, failure, wish or 0.0, throttled=status in THROTTLED or (status == 503 and wish is not None)
            )
        retryable = status >= 500 or status in (408, 409, 425)
        overflow = status == 400 and is_overflow(words)
        return TryOutcome({}, UpstreamError(message, status, retryable=retryable, overflow=overflow))

    def _scrub(self, text: str) -> str:
        for secret in self._endpoints.secrets:
            text = text.replace(secret, REDACTED)
        return text

    async def _is_there(self, base: str) -> bool:
        headers, proxy = self._endpoints.headers(base), self._endpoints.proxy(base)
        return await self._carrier.is_there(f"{base}/models", headers, proxy=proxy)


def _jitter(seconds: float) -> float:
    return random.uniform(seconds / 2, seconds)


def _count(message: str, attempts: int) -> str:
    return f"{message} ({attempts} tries)" if attempts > 1 else message

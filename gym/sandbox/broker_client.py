"""Sandboxes for a server: made by the broker, kept while this process renews its lease, removed when it ends.

    sandboxes = Sandboxes.from_settings(self.settings)          # in start(); `await sandboxes.aclose()` in stop()
    async with await sandboxes.create({"image": "python:3.13-slim"}, rollout=rollout_id) as sandbox:
        result = await sandbox.exec("pytest -q", timeout=120)

A failure is a `RolloutError` of kind `sandbox`, never a result. A request that was sent is retried only under
its id, so that nothing runs twice.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import secrets
import socket
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, Self, TypeVar
from urllib.parse import quote

import orjson

from gym import labels
from gym.http.peer_health import PeerHealth
from gym.http.pool import HttpClient, NotSent, Reply
from gym.http.streams import Incoming, Pieces, TooLarge, exchange
from gym.http.tracing import TRACING
from gym.sandbox.processes import SandboxJob, Shell
from gym.sandbox.sandbox_errors import FileProblem, SandboxEnded, failure
from gym.sandbox.sandbox_handle import Sandbox
from gym.wire.failures import RolloutError
from gym.wire.sandbox import (
    HEADER_EPOCH,
    HEADER_REQUEST,
    Build,
    SandboxInfo,
    SandboxSpec,
    name_call,
    share_key,
    token_digest,
)

T = TypeVar("T")

log = logging.getLogger("gym.sandbox")
LEASE_SECONDS: Final = 20.0
CREATE_SECONDS: Final = 300.0
CALL_SECONDS: Final = 60.0
IDLE_SECONDS: Final = 120.0
RESTART_SECONDS: Final = 20.0  # how long requests are retried while the broker restarts


class HasAccess(Protocol):
    def sandbox_access(self) -> tuple[str, str]: ...


class Sandboxes:
    """One for a process. Its lease begins with the first sandbox, or with `begin`."""

    def __init__(self, url: str, token: str, *, owner: str = "", lease_seconds: float = LEASE_SECONDS) -> None:
        self.url = url.rstrip("/")
        self.owner = owner or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._lease = lease_seconds
        self._authorization = f"Bearer {token}".encode()
        self._token_digest = token_digest(token)
        self._http = HttpClient()
        self._http.expect_health(self.url)
        self._epoch = b""
        self._lease_task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._to_remove: set[str] = set()  # sandboxes whose removal could not be requested yet

    @classmethod
    def from_settings(cls, settings: HasAccess) -> Self:
        """For a server whose config has `sandbox:`; raises UserError otherwise."""
        return cls(*settings.sandbox_access())

    async def __aenter__(self) -> Self:
        await self.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def begin(self) -> None:
        if self._lease_task is None:
            self._lease_task = asyncio.get_running_loop().create_task(self._keep_lease())

    async def aclose(self) -> None:
        """Ends the lease: the broker removes what is left of this process's sandboxes at once."""
        if self._lease_task is not None:
            self._lease_task.cancel()
            await asyncio.gather(self._lease_task, return_exceptions=True)
            self._lease_task = None
            try:
                await self.call("DELETE", f"/leases/{quote(self.owner)}", timeout=35.0, retry_seconds=1.0)
            except RolloutError as error:
                log.warning("the lease of this process could not be ended: %s", error)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.aclose()

    async def create(
        self, spec: SandboxSpec | Mapping[str, Any], *, rollout: str = "", timeout: float | None = None
    ) -> Sandbox:
        """Waits at most `timeout` seconds. A sandbox that comes after its caller was cancelled is removed."""
        await self.begin()
        asked = spec if isinstance(spec, SandboxSpec) else SandboxSpec.model_validate(spec)
        if timeout is None:
            timeout = CREATE_SECONDS + (asked.build.timeout if asked.build else 0.0)
        body = {**asked.model_dump(mode="json", exclude_unset=True), "rollout": rollout, "owner": self.owner}
        return await self._track(self._make("/sandboxes", body, timeout))

    async def fork(self, parent: str, *, rollout: str = "", timeout: float = CREATE_SECONDS) -> Sandbox:
        body = {"rollout": rollout, "owner": self.owner}
        return await self._track(self._make(f"/sandboxes/{parent}/fork", body, timeout))

    async def visit(self, handle: Mapping[str, Any]) -> Sandbox:
        """The sandbox of another instance that gave its `share()` away. It stays that instance's to remove."""
        named = f"{handle.get('id', '')}~{handle.get('key', '')}"
        info = SandboxInfo.model_validate_json((await self.call("GET", f"/sandboxes/{quote(named)}")).body)
        return Sandbox(self, info, str(handle.get("key", "")))

    def key_of(self, sandbox: str) -> str:
        return share_key(self._token_digest, sandbox)

    async def begin_build(self, build: Build) -> None:
        """Starts the build of an image in the background; a `create` that needs it waits for it."""
        await self.call(
            "POST", "/images/begin", {"build": build.model_dump(mode="json")}, timeout=10.0, retry_seconds=5.0
        )

    async def status(self) -> dict[str, Any]:
        status: dict[str, Any] = orjson.loads((await self.call("GET", "/status")).body)
        return status

    async def alive(self) -> tuple[SandboxInfo, ...]:
        """All of this instance."""
        found = orjson.loads((await self.call("GET", "/sandboxes")).body)
        return tuple(SandboxInfo.model_validate(one) for one in found["sandboxes"])

    async def remove(self, sandbox: str) -> None:
        """Retried in the background where the broker cannot be reached now."""
        try:
            await self.call("DELETE", f"/sandboxes/{sandbox}", timeout=40.0, retry_seconds=2.0)
        except RolloutError as error:
            if error.status not in (404, 410):
                self._to_remove.add(sandbox)
                log.warning("sandbox %s: its removal will be retried: %s", sandbox, error)

    # One request.

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        timeout: float = CALL_SECONDS,
        request_id: str = "",
        retry_seconds: float = RESTART_SECONDS,
    ) -> Reply:
        """Returns a reply with status < 400. Retries while the request was not sent; afterwards only with a request id
        or an idempotent method."""
        if TRACING.tracer is None or path.startswith("/leases/"):
            return await self._call(method, path, body, timeout, request_id, retry_seconds)
        verb, sandbox = name_call(method, path)
        with TRACING.tracer.span(
            f"sandbox {verb}", "client", {"gym.hop": "sandbox", "gym.sandbox.id": sandbox}
        ) as span:
            reply = await self._call(method, path, body, timeout, request_id, retry_seconds)
            span.set({"http.response.status_code": reply.status})
            return reply

    async def _call(
        self, method: str, path: str, body: Any, timeout: float, request_id: str, retry_seconds: float
    ) -> Reply:
        loop = asyncio.get_running_loop()
        deadline, retry_until = loop.time() + timeout, loop.time() + retry_seconds
        content = b"" if body is None else orjson.dumps(body)
        delay, idempotent = 0.05, bool(request_id) or method in ("GET", "DELETE")
        resent = False
        while (left := deadline - loop.time()) > 0:
            headers = self._headers(left, request_id, resent)
            try:
                reply = await self._http.request(
                    method, self.url + path, body=content, headers=headers, timeout=left + 5
                )
            except NotSent as error:
                wait = check_retry(delay, loop.time() < retry_until, error)
            except ConnectionError as error:
                resent = True
                wait = check_retry(delay, idempotent and loop.time() < retry_until, error)
            except TimeoutError as error:
                raise RolloutError("timeout", f"sandbox broker: {error}", server="sandbox") from None
            else:
                self._epoch = reply.header(HEADER_EPOCH.encode()) or self._epoch
                if reply.status < 400:
                    return reply
                wait = retry_after(reply, deadline - loop.time())
            delay = min(delay * 2, 2.0)
            await asyncio.sleep(random.uniform(wait / 2, wait))
        late = f"the broker did not do {method} {path} in {timeout:g} s"
        raise RolloutError("timeout", late, server="sandbox")

    async def ndjson(
        self, path: str, body: bytes, *, seconds: float | None, method: str = "POST"
    ) -> AsyncGenerator[Any, None]:
        """One JSON value per line. Close it when you leave the loop early (contextlib.aclosing)."""
        headers = [(b"content-type", b"application/json"), *self._headers(seconds, "", False)]
        async with self.streaming(method, path, headers, body, idle=None) as incoming:
            async for line in incoming.lines():
                yield orjson.loads(line)

    def streaming(
        self,
        method: str,
        path: str,
        headers: Sequence[tuple[bytes, bytes]] = (),
        body: Pieces | bytes = b"",
        *,
        idle: float | None = IDLE_SECONDS,
    ) -> AbstractAsyncContextManager[Incoming]:
        """Fails when no byte moves for `idle` seconds."""
        own = headers or self._headers(None, "", False)
        return _Streaming(exchange(method, self.url + path, tuple(own), body, idle=idle, health=self._http.health))

    # Below: helpers.

    def _headers(self, seconds: float | None, request_id: str, resent: bool) -> list[tuple[bytes, bytes]]:
        headers = [(b"authorization", self._authorization)]
        if seconds is not None:
            headers.append((labels.HEADER_TIMEOUT.encode(), b"%.3f" % seconds))
        if request_id:
            headers.append((HEADER_REQUEST.encode(), request_id.encode()))
        if resent and self._epoch:
            headers.append((HEADER_EPOCH.encode(), self._epoch))
        return headers

    @property
    def health(self) -> PeerHealth:
        return self._http.health

    @property
    def authorization(self) -> bytes:
        """For connections that are not plain requests (gym.sandbox.pipe)."""
        return self._authorization

    def later(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs a request in the background; a failure is only logged."""

        async def say() -> None:
            try:
                await work
            except RolloutError as error:
                log.info("a background request to the broker failed: %s", error)

        self._spawn(say())

    async def _make(self, path: str, body: dict[str, Any], timeout: float) -> Sandbox:
        reply = await self.call("POST", path, body, timeout=timeout, request_id=secrets.token_hex(12))
        return Sandbox(self, SandboxInfo.model_validate_json(reply.body))

    async def _track(self, work: Coroutine[Any, Any, Sandbox]) -> Sandbox:
        task = self._spawn(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._spawn(self._discard(task))
            raise

    async def _discard(self, making: asyncio.Task[Sandbox]) -> None:
        try:
            made = await making
        except RolloutError:
            return
        await self.remove(made.id)

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep_lease(self) -> None:
        path, body, delay = f"/leases/{quote(self.owner)}", {"seconds": self._lease}, self._lease / 4
        while True:
            try:
                await self.call("POST", path, body, timeout=delay, retry_seconds=delay)
                unwanted, self._to_remove = self._to_remove, set()
                for sandbox in unwanted:
                    await self.remove(sandbox)
            except RolloutError as error:
                log.warning("the lease could not be renewed: %s", error)
            await asyncio.sleep(delay)


class _Streaming(AbstractAsyncContextManager[Incoming]):
    """`async with`: the reply below 400, as it comes."""

    def __init__(self, exchanged: AbstractAsyncContextManager[Incoming]) -> None:
        self._exchange = exchanged

    async def __aenter__(self) -> Incoming:
        try:
            incoming = await self._exchange.__aenter__()
        except ConnectionError as error:
            raise RolloutError("sandbox", f"sandbox broker: {error}", server="sandbox") from None
        if incoming.status >= 400:
            try:
                raise failure(incoming.status, await incoming.whole())
            finally:
                await self._exchange.__aexit__(None, None, None)
        return incoming

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await self._exchange.__aexit__(kind, error, trace)
        if isinstance(error, TooLarge):
            raise FileProblem(str(error), errno.EFBIG, "", 413) from error
        if isinstance(error, ConnectionError):
            raise RolloutError("sandbox", f"sandbox broker: {error}", server="sandbox") from error


def check_retry(delay: float, may_retry: bool, error: ConnectionError) -> float:
    if not may_retry:
        raise RolloutError("sandbox", f"sandbox broker: {error}", server="sandbox") from None
    return delay


def retry_after(reply: Reply, left: float) -> float:
    """Seconds until a retry, where the broker did nothing and says when to retry; raises its error otherwise."""
    after = reply.header(b"retry-after")
    if reply.status not in (429, 503) or after is None or not after.isdigit() or float(after) / 2 > left:
        raise failure(reply.status, reply.body)
    return min(float(after), max(left, 0.05))


__all__ = ["FileProblem", "SandboxJob", "Sandbox", "SandboxEnded", "Sandboxes", "Shell"]

"""The Kubernetes API as far as pods need it. A request is resent only where nothing can have been made.

What the API refuses is `ApiRefused` with its own words and reason; what it does not answer is `ApiSilent`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode

import orjson

from gym.broker.errors import reason_of
from gym.broker.providers.kubernetes.attach_stream import AttachStream
from gym.errors import InfraError, UserError
from gym.http.dial import Endpoint, parse_url
from gym.http.pool import HttpClient, NotSent, Reply
from gym.http.streams import open_stream, read_head, request_head

P = TypeVar("P", bound=asyncio.Protocol)
Query = Mapping[str, str | int]
ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
CALL_SECONDS: Final = 30.0
TRIES: Final = 5
LONGEST_PAUSE: Final = 10.0
FIRST_PAUSE: Final = 0.2
LOOK: Final = "Is the API server up? kubectl get --raw /readyz"


class ApiRefused(InfraError):
    """The API answered with an error. `reason` is its word for it: NotFound, AlreadyExists, Forbidden, Expired."""

    def __init__(self, status: int, reason: str, words: str, doing: str, hint: str = "") -> None:
        self.status = status
        self.reason = reason
        self.words = words
        super().__init__(f"The Kubernetes API refused to {doing} ({status} {reason}): {words}", hint)


class ApiSilent(InfraError):
    """No answer: not there, or too slow. What was asked for may have been done."""


class ClusterFacts(NamedTuple):
    """Where the API is, and who asks it."""

    url: str
    namespace: str
    account: Path


def read_cluster(server: str, namespace: str, account: str, environ: Mapping[str, str] = os.environ) -> ClusterFacts:
    """What every pod is given of its cluster; `server` and `namespace` are for a broker elsewhere."""
    folder = Path(account)
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    url = server or (f"https://{f'[{host}]' if ':' in host else host}:{port}" if host else "")
    if not url:
        raise UserError(
            "the sandbox provider `kubernetes` runs in a pod, and this is none: KUBERNETES_SERVICE_HOST is not set",
            "Write the stack's manifests: gym render --target kubernetes. On this machine: --sandbox-provider docker",
        )
    with contextlib.suppress(OSError):
        namespace = namespace or (folder / "namespace").read_text("utf-8").strip()
    return ClusterFacts(url.rstrip("/"), namespace or "default", folder)


class ClusterDial:
    """TLS by the cluster's own certificates."""

    def __init__(self, ca: Path) -> None:
        self._ca = ca

    async def open(self, make: Callable[[], P], address: Endpoint) -> tuple[Any, P]:
        context = self._context() if address.tls else None
        return await asyncio.get_running_loop().create_connection(make, address.host, address.port, ssl=context)

    def name(self, address: Endpoint) -> str:
        return f"{address.host}:{address.port}"

    def _context(self) -> ssl.SSLContext:
        """Read at every connection: a cluster may change them."""
        return ssl.create_default_context(cafile=str(self._ca) if self._ca.is_file() else None)


class ApiClient:
    """One cluster, for one event loop. Paths are below the namespace: `/pods/gym-1`."""

    def __init__(self, cluster: ClusterFacts) -> None:
        self.cluster = cluster
        self._dial = ClusterDial(cluster.account / "ca.crt")
        self._pool = HttpClient(asks_health=False, dial=self._dial)

    async def aclose(self) -> None:
        await self._pool.aclose()
        await asyncio.sleep(0)  # sockets close at the loop's next turn, and there may be no other

    async def call(
        self, method: str, path: str, query: Query | None = None, *, json: Any = None, doing: str
    ) -> dict[str, Any]:
        """The reply, decoded. Retried: what was not sent, what the API put off (429), and what makes nothing."""
        body = b"" if json is None else orjson.dumps(json)
        pause = FIRST_PAUSE
        for left in reversed(range(TRIES)):
            try:
                return await self._ask(method, self._url(path, query), body, doing)
            except ApiSilent as error:
                if not left or (method == "POST" and not isinstance(error.__cause__, NotSent)):
                    raise
            except ApiBusy as error:
                if not left or (error.status != 429 and method == "POST"):
                    raise
                pause = max(pause, error.after)
            await asyncio.sleep(min(pause, LONGEST_PAUSE))
            pause *= 2
        raise AssertionError("the last try returns or raises")

    async def watch(self, path: str, query: Query, *, doing: str) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a watch as they come, until the API ends it."""
        address = parse_url(self._url(path, {**query, "watch": 1}))
        reader, writer = await self._connect(address, doing)
        try:
            writer.write(request_head("GET", address.target, ((b"host", address.netloc), *self._headers())))
            incoming = await read_head(reader)
            if incoming.status >= 400:
                raise _refused(incoming.status, await incoming.whole(), doing)
            async with aclosing(incoming.lines()) as lines:  # type: ignore[type-var]  # it is a generator
                async for line in lines:
                    if line.strip():
                        yield orjson.loads(line)
        except (OSError, EOFError, orjson.JSONDecodeError) as error:
            raise ApiSilent(f"The Kubernetes API hung up while it was to {doing}: {error}", LOOK) from error
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)  # it closes at the loop's next turn

    async def attach(self, path: str, query: Query, *, doing: str) -> AttachStream:
        """The pipes of a container's first process."""
        address = parse_url(self._url(path, query))
        try:
            async with asyncio.timeout(CALL_SECONDS):
                stream = await AttachStream.open(self._dial, address, b"Bearer " + self._token())
                status, body = await stream.answered()
        except (OSError, EOFError) as error:  # TimeoutError is one
            raise ApiSilent(f"The Kubernetes API did not {doing}: {reason_of(error)}", LOOK) from error
        if status != 101:
            stream.close()
            raise _refused(status, body, doing)
        return stream

    async def _ask(self, method: str, url: str, body: bytes, doing: str) -> dict[str, Any]:
        try:
            reply: Reply = await self._pool.request(
                method, url, body=body, headers=self._headers(), timeout=CALL_SECONDS
            )
        except OSError as error:  # TimeoutError and NotSent are among them
            raise ApiSilent(f"The Kubernetes API did not {doing}: {reason_of(error)}", LOOK) from error
        if reply.status in (429, 500, 502, 503, 504):
            raise ApiBusy(reply, doing)
        if reply.status >= 400:
            raise _refused(reply.status, reply.body, doing)
        try:
            found: dict[str, Any] = orjson.loads(reply.body)
        except orjson.JSONDecodeError as error:
            raise ApiSilent(f"The Kubernetes API did not {doing}: its answer is not JSON", LOOK) from error
        return found

    async def _connect(self, address: Endpoint, doing: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await open_stream(self._dial, address, limit=16 << 20)
        except OSError as error:
            raise ApiSilent(f"The Kubernetes API did not {doing}: {reason_of(error)}", LOOK) from error

    def _url(self, path: str, query: Query | None) -> str:
        base = f"{self.cluster.url}/api/v1/namespaces/{self.cluster.namespace}{path}"
        return base + (f"?{urlencode(query)}" if query else "")

    def _headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"authorization", b"Bearer " + self._token()), (b"accept", b"application/json")]

    def _token(self) -> bytes:
        """Read for every request: the cluster writes another one before it expires."""
        with contextlib.suppress(OSError):
            return (self.cluster.account / "token").read_bytes().strip()
        return b""


class ApiBusy(ApiRefused):
    """The API is busy, or broken for a moment. 429 alone promises that nothing was done."""

    def __init__(self, reply: Reply, doing: str) -> None:
        found = _refused(reply.status, reply.body, doing)
        super().__init__(found.status, found.reason, found.words, doing, LOOK)
        given = reply.header(b"retry-after") or b""
        self.after = float(given) if given.isdigit() else 0.0


def _refused(status: int, body: bytes, doing: str) -> ApiRefused:
    try:
        found = orjson.loads(body)
        reason, words = str(found.get("reason") or ""), str(found["message"])
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
        reason, words = "", body[:2000].decode("utf-8", "replace").strip() or "it said nothing"
    return ApiRefused(status, reason, words, doing, _next_step(status, words))


def _next_step(status: int, words: str) -> str:
    if status == 401:
        return "Its service account's token is not accepted: kubectl delete pod -l app.kubernetes.io/name=sandbox"
    if status == 403 and "cannot" in words:
        return "Its Role does not allow it: kubectl apply -k on the rendered folder again"
    return ""

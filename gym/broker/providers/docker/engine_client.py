"""The Engine API over its socket: whole replies through a keep-alive pool, streams and attached pipes on their own.

What the engine refuses is `EngineRefused` with the engine's own words; what it does not answer is `EngineSilent`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from gym.broker.errors import reason_of
from gym.broker.providers.docker.hijack import Attached
from gym.engine import FAR, engine_host
from gym.errors import InfraError, UserError
from gym.http.dial import Dial, SocketFileDial, TcpDial, parse_url
from gym.http.pool import HttpClient, NotSent, Reply
from gym.http.streams import open_stream, read_head, request_head

API_FLOOR: Final = (1, 41)
API_BEST: Final = (1, 45)  # newer engines still speak it
CALL_SECONDS: Final = 60.0
START_IT: Final = "Start it (on Debian: scripts/docker-engine), or use the provider `bubblewrap`."

Query = Mapping[str, str | int | bool | float | None]


class EngineRefused(InfraError):
    """The engine answered with an error. `status`: 404 not found, 409 conflict, 500 internal error."""

    def __init__(self, status: int, words: str, doing: str) -> None:
        self.status = status
        self.words = words
        super().__init__(f"The container engine refused to {doing} ({status}): {words}")


class EngineSilent(InfraError):
    """No answer: not running, not permitted, or too slow."""


class EngineClient:
    """One engine, for one event loop. `open` before use, `aclose` after."""

    def __init__(self, host: str | None = None) -> None:
        self.host = host or engine_host()
        self.version = ""
        self._prefix = ""
        self._dial, self._base = _endpoint(self.host)
        self._address = parse_url(self._base)
        self._pool = HttpClient(asks_health=False, dial=self._dial)

    async def open(self) -> dict[str, Any]:
        """Agrees on an API version; what the engine says of itself."""
        info: dict[str, Any] = await self._ask("GET", "/version", doing="tell its version", timeout=10.0)
        best, least = _version(info.get("ApiVersion")), _version(info.get("MinAPIVersion"))
        chosen = min(best, API_BEST)
        if chosen < API_FLOOR or least > API_BEST:
            raise InfraError(
                f"The engine at {self.host} speaks API {_dotted(least)} to {_dotted(best)}; this provider needs 1.41.",
                "Upgrade the engine to Docker 25 or later.",
            )
        chosen = max(chosen, least)
        self.version = str(info.get("Version", ""))
        self._prefix = f"/v{_dotted(chosen)}"
        return info

    async def aclose(self) -> None:
        await self._pool.aclose()
        await asyncio.sleep(0)  # sockets close at the loop's next turn, and there may be no other

    async def call(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        *,
        json: Any = None,
        body: bytes = b"",
        doing: str,
        timeout: float = CALL_SECONDS,
    ) -> Any:
        """The reply, decoded. A GET is retried once when the engine drops the connection; nothing else is."""
        sent = body if json is None else orjson.dumps(json)
        target = self._target(path, query)
        try:
            return await self._ask(method, target, sent, doing=doing, timeout=timeout)
        except EngineSilent as error:
            if not isinstance(error.__cause__, NotSent) and (method != "GET" or not _dropped(error)):
                raise
        return await self._ask(method, target, sent, doing=doing, timeout=timeout)

    async def stream(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        *,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        doing: str,
    ) -> AsyncGenerator[bytes, None]:
        """The parts of a long reply as they come. Leaving the loop ends the request."""
        reader, writer = await self._connect(doing)
        try:
            writer.write(self._head(method, self._target(path, query), len(body), headers or {}))
            writer.write(body)
            incoming = await read_head(reader)
            if incoming.status >= 400:
                raise EngineRefused(incoming.status, _words(await incoming.whole()), doing)
            async for part in incoming.pieces():
                yield part
        except (OSError, EOFError) as error:
            raise EngineSilent(f"The container engine hung up while it was to {doing}: {error}", START_IT) from error
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)  # it closes at the loop's next turn

    async def lines(
        self, method: str, path: str, query: Query | None = None, **options: Any
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The JSON objects of a long reply."""
        rest = b""
        async with aclosing(self.stream(method, path, query, **options)) as parts:
            async for part in parts:
                *whole, rest = (rest + part).split(b"\n")
                for line in whole:
                    if line.strip():
                        yield orjson.loads(line)
        if rest.strip():
            yield orjson.loads(rest)

    async def attach(self, path: str, query: Query | None = None, *, json: Any = None, doing: str) -> Attached:
        """The pipes of a container or an exec: its stdout as a reader, its stdin as a writer."""
        body = b"" if json is None else orjson.dumps(json)
        head = self._head("POST", self._target(path, query), len(body), {"Connection": "Upgrade", "Upgrade": "tcp"})
        try:
            async with asyncio.timeout(CALL_SECONDS):
                attached = await Attached.dial(self._dial, self._address, head + body)
                status, words = await attached.answered()
        except (OSError, EOFError, TimeoutError) as error:
            raise EngineSilent(f"The container engine did not {doing}: {reason_of(error)}", START_IT) from error
        if status not in (101, 200):
            attached.close()
            raise EngineRefused(status, _words(words), doing)
        return attached

    async def _ask(self, method: str, target: str, body: bytes = b"", *, doing: str, timeout: float) -> Any:
        try:
            reply: Reply = await self._pool.request(method, self._base + target, body=body, timeout=timeout)
        except PermissionError as error:
            raise _forbidden(self.host) from error
        except OSError as error:  # TimeoutError and NotSent are among them
            if isinstance(error.__cause__, PermissionError):
                raise _forbidden(self.host) from error
            raise EngineSilent(f"The container engine at {self.host} did not {doing}: {error}", START_IT) from error
        if reply.status >= 400:
            raise EngineRefused(reply.status, _words(reply.body), doing)
        kind = reply.header(b"content-type") or b""
        return orjson.loads(reply.body) if reply.body and b"json" in kind else reply.body

    async def _connect(self, doing: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await open_stream(self._dial, self._address)
        except OSError as error:  # TimeoutError is one
            raise EngineSilent(f"The container engine did not {doing}: {reason_of(error)}", START_IT) from error

    def _target(self, path: str, query: Query | None) -> str:
        pairs = {key: _plain(value) for key, value in (query or {}).items() if value is not None}
        return self._prefix + path + (f"?{urlencode(pairs)}" if pairs else "")

    def _head(self, method: str, target: str, length: int, headers: Mapping[str, str]) -> bytes:
        given = {"Host": "engine", "Content-Type": "application/json", "Content-Length": str(length), **headers}
        return request_head(method, target.encode(), ((key.encode(), value.encode()) for key, value in given.items()))


def _endpoint(host: str) -> tuple[Dial, str]:
    """How to reach what DOCKER_HOST says, and the base of its URLs."""
    if host.startswith("unix://"):
        return SocketFileDial(host.removeprefix("unix://")), "http://engine"
    if re.match(r"^(tcp|http)://(localhost|127\.[\d.]+|\[::1\]):\d+/?$", host):
        return TcpDial(), "http://" + host.partition("://")[2].rstrip("/")
    far = "on another machine" if FAR.match(host) else "of a kind this provider does not speak"
    raise UserError(
        f"The engine at {host} is {far}; sandboxes need one of this machine.",
        "Set DOCKER_HOST=unix:///var/run/docker.sock, or run the broker on that machine.",
    )


def _forbidden(host: str) -> EngineSilent:
    return EngineSilent(
        f"Docker's socket {host} is there, but this user may not open it.",
        'Join its group: sudo usermod -aG docker "$USER", then log in again; in a stack set `group_add` of the broker.',
    )


def _dropped(error: EngineSilent) -> bool:
    return isinstance(error.__cause__, ConnectionError)


def _words(body: bytes) -> str:
    try:
        return str(orjson.loads(body)["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return body[:2000].decode("utf-8", "replace").strip() or "it said nothing"


def _plain(value: str | int | bool | float) -> str:
    return ("1" if value else "0") if isinstance(value, bool) else str(value)


def _version(given: object) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", str(given or "")))[:2] or (1, 24)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))

"""Where the console's knowledge comes from: the discovery document and its own file, read again when they change."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import Any, Protocol, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gym.http.pool import HttpClient
from gym.wire.discovery import Discovery
from gym.wire.server_types import ServerType

M = TypeVar("M", bound=BaseModel)
log = logging.getLogger("gym.console")
FETCH_SECONDS = 2.0
FRESH_SECONDS = 1.0


class ServerFacts(BaseModel):
    """What the plan knows and discovery does not say."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    type: ServerType
    implementation: str
    prefix: str
    slug: str = ""
    launch: str = "sdk"
    directory: str = ""
    entrypoint: str = "app.py"
    needs: tuple[str, ...] = ()
    parts: dict[str, str] = Field(default_factory=dict)  # digests of what it is made of, by their names


class ConsoleConfig(BaseModel):
    """The file that `gym.render.console_document` writes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    stack: str = "gym"
    config: dict[str, Any] = Field(default_factory=dict)
    servers: dict[str, ServerFacts] = Field(default_factory=dict)
    telemetry: dict[str, Any] = Field(default_factory=dict)  # as a collector outside of the stack has to read it


class DiscoverySources(Protocol):
    async def discovery(self) -> Discovery: ...

    def config(self) -> ConsoleConfig: ...


class LiveSources:
    """Files are looked at by their status and parsed only when that changed; a URL is asked once a second at most."""

    def __init__(self, discovery: str, config: Path | None, client: HttpClient) -> None:
        self._where = discovery
        self._client = client
        self._discovery_file = None if discovery.startswith(("http://", "https://")) else _JsonFile(Path(discovery))
        self._config_file = _JsonFile(config) if config else None
        self._discovery = Discovery(stack="")
        self._config = ConsoleConfig()
        self._asked = float("-inf")
        self._lock = asyncio.Lock()

    async def discovery(self) -> Discovery:
        raw = self._discovery_file.changed() if self._discovery_file else await self._fetched()
        if raw is not None:
            self._discovery = _parsed(Discovery, raw, self._where) or self._discovery
        return self._discovery

    def config(self) -> ConsoleConfig:
        raw = self._config_file.changed() if self._config_file else None
        if raw is not None:
            self._config = _parsed(ConsoleConfig, raw, "its configuration") or self._config
        return self._config

    async def _fetched(self) -> bytes | None:
        async with self._lock:
            if time.monotonic() - self._asked < FRESH_SECONDS:
                return None
            try:
                reply = await self._client.request("GET", self._where, timeout=FETCH_SECONDS)
            except OSError as error:  # TimeoutError is one
                log.warning("no discovery from %s: %s", self._where, error)
                return None
            finally:
                self._asked = time.monotonic()
        return reply.body if reply.status == 200 else None


class _JsonFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None

    def changed(self) -> bytes | None:
        """Its content when it is another one than at the last call. Not there (yet) is not a change."""
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                seen = (status.st_ino, status.st_mtime_ns, status.st_size)
                if seen == self._seen:
                    return None
                content = file.read()
        except OSError:
            return None
        self._seen = seen
        return content


def _parsed(kind: type[M], raw: bytes, where: str) -> M | None:
    try:
        return kind.model_validate(orjson.loads(raw))
    except (orjson.JSONDecodeError, ValidationError) as error:
        log.warning("%s is unreadable, the last good one stays in use: %s", where, error)
        return None

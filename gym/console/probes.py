"""Probes the health of every replica, all at once, at most once a second for any number of callers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from gym.config.redaction import redact
from gym.console.discovery_sources import ServerFacts
from gym.http.pool import HttpClient, NotSent
from gym.labels import BLOCKED
from gym.wire.discovery import Discovery, ReplicaView
from gym.wire.failures import error_from_reply

TIMEOUT_SECONDS = 1.0
FRESH_SECONDS = 1.0
AT_ONCE = 128
SAID_ALREADY = frozenset({"status", "name", "type", "version", "started"})


@dataclass(frozen=True)
class Probe:
    """How one replica answered. `outcome` is in the words of a NeMo Gym head server."""

    outcome: str  # success | connection_error | timeout | unknown_error
    detail: str = ""
    milliseconds: float = 0.0
    health: Mapping[str, Any] = field(default_factory=dict)
    started: float = 0.0  # seconds since the epoch; 0: it does not say
    version: str = ""

    @property
    def ok(self) -> bool:
        return self.outcome == "success"


class Prober:
    def __init__(self, client: HttpClient, timeout: float = TIMEOUT_SECONDS) -> None:
        self._client = client
        self._timeout = timeout
        self._lock = asyncio.Lock()
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._taken = float("-inf")
        self._generation = -1
        self._found: dict[str, Probe] = {}

    async def probe(self, discovery: Discovery, facts: Mapping[str, ServerFacts]) -> Mapping[str, Probe]:
        """Replica id -> probe, at most a second old and of this generation of the stack."""
        async with self._lock:
            fresh = time.monotonic() - self._taken < FRESH_SECONDS
            if not fresh or self._generation != discovery.generation:
                self._found = await self._ask_all(discovery, facts)
                self._taken, self._generation = time.monotonic(), discovery.generation
            return self._found

    async def ask(self, replicas: Iterable[ReplicaView]) -> Mapping[str, Probe]:
        """Replicas of our own servers, at this moment."""
        async with asyncio.TaskGroup() as group:
            tasks = {one.id: group.create_task(self._ask(one, ours=True)) for one in replicas}
        return {id: task.result() for id, task in tasks.items()}

    async def _ask_all(self, discovery: Discovery, facts: Mapping[str, ServerFacts]) -> dict[str, Probe]:
        tasks: dict[str, asyncio.Task[Probe]] = {}
        async with asyncio.TaskGroup() as group:
            for name, instance in discovery.instances.items():
                ours = facts[name].launch == "sdk" if name in facts else False
                for replica in instance.replicas:
                    tasks[replica.id] = group.create_task(self._ask(replica, ours=ours))
        return {id: task.result() for id, task in tasks.items()}

    async def _ask(self, replica: ReplicaView, *, ours: bool) -> Probe:
        """A server that is not ours may know no /healthz: that it answers is enough, unless it says 503."""
        async with self._gate:
            started = time.perf_counter()
            try:
                reply = await self._client.request("GET", f"{replica.url}/healthz", timeout=self._timeout)
            except TimeoutError:
                return Probe("timeout", f"no answer on /healthz within {self._timeout:g} s")
            except NotSent as error:
                return Probe("connection_error", str(error))
            except (OSError, ValueError) as error:
                return Probe("unknown_error", f"{type(error).__name__}: {error}")
        taken = (time.perf_counter() - started) * 1000
        if reply.status == 200 or (not ours and reply.status != 503):
            health = _parse(reply.body)
            return Probe("success", "", round(taken, 1), _health(health), _started(health), _version(health))
        why = error_from_reply(reply.status, reply.body, server="", kind="agent").message
        detail = why if why.startswith(BLOCKED) else f"/healthz answered {reply.status}"
        return Probe("unknown_error", detail, round(taken, 1), _health(_parse(reply.body)))


def _parse(body: bytes) -> Mapping[str, Any]:
    try:
        parsed = orjson.loads(body) if len(body) < 65536 else None
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _health(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """What /healthz has beside the status; another program wrote it, so secrets are masked."""
    health: Mapping[str, Any] = redact({key: value for key, value in fields.items() if key not in SAID_ALREADY})
    return health


def _started(fields: Mapping[str, Any]) -> float:
    started = fields.get("started")
    return float(started) if isinstance(started, (int, float)) else 0.0


def _version(fields: Mapping[str, Any]) -> str:
    version = fields.get("version")
    return version[:40] if isinstance(version, str) else ""

"""Pools of ready sandboxes for specs that are in use: made ahead, handed out once, never reused."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson

from gym.broker.config import BrokerSettings
from gym.broker.provider import ProviderSandbox
from gym.wire.sandbox import SandboxSpec

log = logging.getLogger("gym.broker")
Make = Callable[[SandboxSpec, str, str], Awaitable[ProviderSandbox | None]]  # spec, instance, key -> None: not now
Drop = Callable[[ProviderSandbox, str], None]
KNOWN_SPECS = 256
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0


@dataclass(slots=True)
class WarmPool:
    """Of one spec and one instance."""

    key: str
    instance: str
    spec: SandboxSpec
    max_ready: int
    ready: deque[tuple[ProviderSandbox, float]] = field(default_factory=deque)
    requests: deque[float] = field(default_factory=deque)
    making: int = 0
    hits: int = 0
    retry_delay: float = 0.0
    not_before: float = 0.0

    def wanted(self, now: float, window: float) -> int:
        """How many to keep ready. A spec that was requested once may never be requested again."""
        while self.requests and self.requests[0] <= now - window:
            self.requests.popleft()
        return min(self.max_ready, len(self.requests)) if len(self.requests) > 1 else 0


class WarmPools:
    def __init__(
        self, settings: BrokerSettings, make: Make, drop: Drop, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._make = make
        self._drop = drop
        self._clock = clock
        self._pools: dict[str, WarmPool] = {}
        self._wake = asyncio.Event()

    def take(self, spec: SandboxSpec, instance: str, max_ready: int) -> ProviderSandbox | None:
        """A sandbox that was never used, or None. Counts the request either way."""
        if max_ready < 1 or not can_wait(spec):
            return None
        pool = self._pool(spec, instance, max_ready)
        pool.requests.append(self._clock())
        while len(pool.requests) > 4 * max_ready:
            pool.requests.popleft()
        self._wake.set()
        while pool.ready:
            sandbox, _ = pool.ready.popleft()
            if not sandbox.channel.closed:
                pool.hits += 1
                return sandbox
            self._drop(sandbox, "it died while it waited")
        return None

    async def run(self, spawn: Callable[[Any, str], object]) -> None:
        """Refills and trims the pools, until cancelled."""
        while True:
            self.tend(spawn)
            try:
                async with asyncio.timeout(min(1.0, self._settings.warm_window_seconds / 4)):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    def tend(self, spawn: Callable[[Any, str], object]) -> None:
        now, room = self._clock(), self._settings.warm_total - self._total()
        for pool in tuple(self._pools.values()):
            ready = len(pool.ready)
            self._let_go(pool, now)
            wanted = pool.wanted(now, self._settings.warm_window_seconds)
            while len(pool.ready) > wanted:
                self._drop(pool.ready.popleft()[0], "its spec was no longer requested")
            room += ready - len(pool.ready)
            missing = min(wanted - len(pool.ready) - pool.making, room)
            for _ in range(max(missing, 0) if now >= pool.not_before else 0):
                pool.making += 1
                room -= 1
                spawn(self._fill(pool), f"warm {pool.spec.image}")
            if not wanted and not pool.making and not pool.requests:
                del self._pools[pool.key]

    def drain(self) -> list[ProviderSandbox]:
        """Empties all pools; the caller removes what is returned."""
        sandbox = [one for pool in self._pools.values() for one, _ in pool.ready]
        self._pools.clear()
        return sandbox

    def ready_ids(self) -> frozenset[str]:
        return frozenset(one.tags.id for pool in self._pools.values() for one, _ in pool.ready)

    def status(self) -> list[dict[str, Any]]:
        return [
            {
                "image": pool.spec.image,
                "instance": pool.instance,
                "ready": len(pool.ready),
                "making": pool.making,
                "hits": pool.hits,
                "most": pool.max_ready,
            }
            for pool in self._pools.values()
        ]

    def _pool(self, spec: SandboxSpec, instance: str, max_ready: int) -> WarmPool:
        key = spec_key(spec, instance)
        pool = self._pools.get(key)
        if pool is None:
            if len(self._pools) >= KNOWN_SPECS:
                idle = min(self._pools.values(), key=lambda one: one.requests[-1] if one.requests else 0.0)
                self._pools.pop(idle.key)
                for sandbox, _ in idle.ready:
                    self._drop(sandbox, "too many specs are in use")
            pool = self._pools[key] = WarmPool(key, instance, plain(spec), max_ready)
        return pool

    def _let_go(self, pool: WarmPool, now: float) -> None:
        keep: deque[tuple[ProviderSandbox, float]] = deque()
        for sandbox, made in pool.ready:
            if sandbox.channel.closed or now - made > self._settings.warm_age_seconds:
                self._drop(sandbox, "it had waited too long")
            else:
                keep.append((sandbox, made))
        pool.ready = keep

    async def _fill(self, pool: WarmPool) -> None:
        made: ProviderSandbox | None = None
        try:
            made = await self._make(pool.spec, pool.instance, pool.key)
            pool.retry_delay = 0.0
        except Exception as error:  # noqa: BLE001 (a pool that cannot be filled costs speed, nothing else)
            pool.retry_delay = min(max(pool.retry_delay * 2, FIRST_RETRY_SECONDS), MAX_RETRY_SECONDS)
            pool.not_before = self._clock() + pool.retry_delay
            log.warning("no ready sandbox of %s could be made: %s", pool.spec.image, error)
        finally:
            pool.making -= 1
        if made is None:
            return
        if self._pools.get(pool.key) is pool:
            pool.ready.append((made, self._clock()))
        else:
            self._drop(made, "its spec was no longer requested")

    def _total(self) -> int:
        return sum(len(pool.ready) + pool.making for pool in self._pools.values())


def can_wait(spec: SandboxSpec) -> bool:
    """Only what is the same for everybody: an image by name, and no network to be attached."""
    return spec.image is not None and spec.network.access == "none" and spec.network.setup is None


def plain(spec: SandboxSpec) -> SandboxSpec:
    """Without what belongs to one request alone."""
    return spec.model_copy(update={"ttl": 3600.0, "labels": {}, "command": ()})


def spec_key(spec: SandboxSpec, instance: str) -> str:
    text = orjson.dumps([instance, plain(spec).model_dump(mode="json")], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:16]

"""Pools of ready sandboxes for specs that are in use: made ahead, handed out once, never reused."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import re
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from gym.broker.config import BrokerSettings
from gym.broker.forecast import Forecast
from gym.broker.image_pulls import source_key
from gym.broker.meters import Meters
from gym.broker.provider import ProviderSandbox
from gym.wire.sandbox import SandboxSpec, through_gate

log = logging.getLogger("gym.broker")
KNOWN_SPECS = 256
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 1.0, 60.0
FIRST_GUESS_SECONDS, SMOOTHING = 0.5, 0.3  # of how long making one takes
REMEMBERED = 8  # requests, for each sandbox that a pool may hold
MEMINFO = Path("/proc/meminfo")


class PoolHost(NamedTuple):
    """What the pools need of their broker."""

    make: Callable[[SandboxSpec, str, str], Awaitable[ProviderSandbox | None]]  # spec, instance, key -> None: not now
    drop: Callable[[ProviderSandbox, str], object]
    room: Callable[[str], float]  # how many more sandboxes an instance may have beside those that were handed out
    memory: Callable[[], float]  # bytes that the machine has left
    meters: Meters


@dataclass(slots=True)
class WarmPool:
    """Of one spec and one instance."""

    key: str
    instance: str
    spec: SandboxSpec
    max_ready: int
    forecast: Forecast
    ready: deque[tuple[ProviderSandbox, float]] = field(default_factory=deque)
    target: int = 0
    making: int = 0
    making_seconds: float = FIRST_GUESS_SECONDS
    hits: int = 0
    misses: int = 0
    retry_delay: float = 0.0
    not_before: float = 0.0

    @property
    def count(self) -> int:
        return len(self.ready) + self.making


class WarmPools:
    """Ready sandboxes take room that no request asked for, so they are the first to go where there is too little."""

    def __init__(self, settings: BrokerSettings, host: PoolHost, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._host = host
        self._clock = clock
        self._pools: dict[str, WarmPool] = {}
        self._wake = asyncio.Event()

    def take(self, spec: SandboxSpec, instance: str, max_ready: int) -> ProviderSandbox | None:
        """A sandbox that was never used, or None. Counts the request either way."""
        if min(max_ready, self._settings.warm_total) < 1 or not can_wait(spec):
            return None
        pool = self._pool(spec, instance, max_ready)
        pool.forecast.add(self._clock())
        self._wake.set()
        while pool.ready:
            sandbox, _ = pool.ready.popleft()
            if not sandbox.channel.closed:
                pool.hits += 1
                self._host.meters.count("claim", "hit")
                return sandbox
            self._host.drop(sandbox, "it died while it waited")
        pool.misses += 1
        self._host.meters.count("claim", "miss")
        return None

    def make_room(self, instance: str) -> None:
        """With those that are ready, an instance has no more sandboxes than its grant says."""
        own = [pool for pool in self._pools.values() if pool.instance == instance]
        while sum(pool.count for pool in own) > self._host.room(instance) and self._drop_one(own):
            pass

    async def run(self, spawn: Callable[[Any, str], object]) -> None:
        """Refills and trims the pools, until cancelled."""
        while True:
            self.tend(spawn)
            try:
                async with asyncio.timeout(min(1.0, self._settings.warm_idle_seconds / 4)):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    def tend(self, spawn: Callable[[Any, str], object]) -> None:
        now = self._clock()
        for pool in tuple(self._pools.values()):
            self._trim(pool, now)
        free = self._host.memory() - sum(pool.count * pool.spec.limits.memory for pool in self._pools.values())
        while free < 0 and (dropped := self._drop_one(self._pools.values())):
            free += dropped.spec.limits.memory
        left = self._settings.warm_total - sum(pool.count for pool in self._pools.values())
        for pool in self._pools.values():
            missing = min(pool.target - pool.count, left) if now >= pool.not_before else 0
            for _ in range(min(missing, self._room(pool, free)) if missing > 0 else 0):
                pool.making += 1
                left -= 1
                free -= pool.spec.limits.memory
                spawn(self._fill(pool), f"warm {pool.spec.image or 'of a build'}")

    def drain(self) -> list[ProviderSandbox]:
        """Empties all pools; the caller removes what is returned."""
        sandboxes = [one for pool in self._pools.values() for one, _ in pool.ready]
        self._pools.clear()
        return sandboxes

    def status(self) -> list[dict[str, Any]]:
        return [
            {
                "image": pool.spec.image or "(built)",
                "instance": pool.instance,
                "ready": len(pool.ready),
                "making": pool.making,
                "hits": pool.hits,
                "misses": pool.misses,
                "most": pool.max_ready,
            }
            for pool in self._pools.values()
        ]

    def _pool(self, spec: SandboxSpec, instance: str, max_ready: int) -> WarmPool:
        key = spec_key(spec, instance)
        pool = self._pools.get(key)
        if pool is None:
            if len(self._pools) >= KNOWN_SPECS:
                idle = self._pools.pop(min(self._pools.values(), key=_last_request).key)
                for sandbox, _ in idle.ready:
                    self._host.drop(sandbox, "too many specs are in use")
            forecast = Forecast(REMEMBERED * max_ready)
            pool = self._pools[key] = WarmPool(key, instance, plain(spec), max_ready, forecast)
        return pool

    def _trim(self, pool: WarmPool, now: float) -> None:
        settings, keep = self._settings, deque[tuple[ProviderSandbox, float]]()
        for sandbox, made in pool.ready:
            if sandbox.channel.closed or now - made > settings.warm_age_seconds:
                self._host.drop(sandbox, "it had waited too long")
            else:
                keep.append((sandbox, made))
        pool.ready = keep
        wanted = pool.forecast.wanted(
            now, making=pool.making_seconds, window=settings.warm_window_seconds, idle=settings.warm_idle_seconds
        )
        pool.target = min(wanted, pool.max_ready)
        while pool.ready and not pool.target:  # one too many is handed out soon, and was paid for
            self._host.drop(pool.ready.popleft()[0], "its spec is no longer requested")
        if not pool.count and now - pool.forecast.last > settings.warm_window_seconds:
            del self._pools[pool.key]

    def _drop_one(self, pools: Iterable[WarmPool]) -> WarmPool | None:
        """Of the spec that was not requested for the longest time."""
        pool = min((pool for pool in pools if pool.ready), key=_last_request, default=None)
        if pool is not None:
            self._host.drop(pool.ready.popleft()[0], "its room was needed")
        return pool

    def _room(self, pool: WarmPool, free: float) -> int:
        """For how many more there is room: in the instance's grant, and in memory if each took all it may."""
        own = sum(one.count for one in self._pools.values() if one.instance == pool.instance)
        room = min(self._host.room(pool.instance) - own, free / pool.spec.limits.memory)
        return max(int(room), 0)

    async def _fill(self, pool: WarmPool) -> None:
        made: ProviderSandbox | None = None
        began = self._clock()
        try:
            made = await self._host.make(pool.spec, pool.instance, pool.key)
            pool.retry_delay = 0.0
        except Exception as error:  # noqa: BLE001 (a pool that cannot be filled costs speed, nothing else)
            pool.retry_delay = min(max(pool.retry_delay * 2, FIRST_RETRY_SECONDS), MAX_RETRY_SECONDS)
            pool.not_before = self._clock() + pool.retry_delay
            log.warning("no ready sandbox of %s could be made: %s", pool.spec.image or "a build", error)
        finally:
            pool.making -= 1
        if made is None:
            return
        now = self._clock()
        seconds = pool.making_seconds
        pool.making_seconds = max(now - began, seconds + (now - began - seconds) * SMOOTHING)  # rises at once
        if self._pools.get(pool.key) is not pool:
            self._host.drop(made, "its spec was no longer requested")
            return
        pool.ready.append((made, now))
        self.make_room(pool.instance)


def can_wait(spec: SandboxSpec) -> bool:
    """Whether one can be made before it is known for whom: the egress gate has to know the rollout from the start."""
    return not through_gate(spec.network)


def plain(spec: SandboxSpec) -> SandboxSpec:
    """Without its first job, which is started after it was handed out. The rest has to fit from the start: an engine
    cannot change labels, variables or mounts of what runs, and changes its limits in 27 ms (p50)."""
    return spec.model_copy(update={"command": ()})


def spec_key(spec: SandboxSpec, instance: str) -> str:
    rest = spec.model_dump(mode="json", exclude={"image", "build", "command"})
    text = orjson.dumps([instance, source_key(spec), rest], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:16]


def free_memory() -> float:
    """Bytes that the machine could still give out without swapping; no bound where that is not known."""
    try:
        found = re.search(rb"^MemAvailable:\s+(\d+) kB$", MEMINFO.read_bytes(), re.MULTILINE)
    except OSError:
        found = None
    return int(found[1]) * 1024 if found else math.inf


def _last_request(pool: WarmPool) -> float:
    return pool.forecast.last

"""Ready sandboxes of specs that are in use: made ahead, handed out once, never used again, none where nobody asks."""

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

from gym.broker.config import Knobs
from gym.broker.provider import Held
from gym.wire.sandbox import SandboxSpec

log = logging.getLogger("gym.broker")
Make = Callable[[SandboxSpec, str, str], Awaitable[Held | None]]  # spec, instance, key -> None: not now
Drop = Callable[[Held, str], None]
KNOWN_SPECS = 256
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


@dataclass(slots=True)
class Pool:
    """Of one spec and one instance."""

    key: str
    instance: str
    spec: SandboxSpec
    most: int
    ready: deque[tuple[Held, float]] = field(default_factory=deque)
    asked: deque[float] = field(default_factory=deque)
    making: int = 0
    hits: int = 0
    pause: float = 0.0
    not_before: float = 0.0

    def wanted(self, now: float, window: float) -> int:
        """One request may be the only one of its kind; from the second on there is something to be ready for."""
        while self.asked and self.asked[0] <= now - window:
            self.asked.popleft()
        return min(self.most, len(self.asked)) if len(self.asked) > 1 else 0


class WarmPools:
    def __init__(self, knobs: Knobs, make: Make, drop: Drop, clock: Callable[[], float] = time.monotonic) -> None:
        self._knobs = knobs
        self._make = make
        self._drop = drop
        self._clock = clock
        self._pools: dict[str, Pool] = {}
        self._wake = asyncio.Event()

    def take(self, spec: SandboxSpec, instance: str, most: int) -> Held | None:
        """One that nobody had, or None; either way the use is counted."""
        if most < 1 or not can_wait(spec):
            return None
        pool = self._pool(spec, instance, most)
        pool.asked.append(self._clock())
        while len(pool.asked) > 4 * most:
            pool.asked.popleft()
        self._wake.set()
        while pool.ready:
            held, _ = pool.ready.popleft()
            if not held.channel.closed:
                pool.hits += 1
                return held
            self._drop(held, "it died while it waited")
        return None

    async def run(self, spawn: Callable[[Any, str], object]) -> None:
        """Refills and lets go, until cancelled."""
        while True:
            self.tend(spawn)
            try:
                async with asyncio.timeout(min(1.0, self._knobs.warm_window_seconds / 4)):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    def tend(self, spawn: Callable[[Any, str], object]) -> None:
        now = self._clock()
        for pool in tuple(self._pools.values()):
            self._let_go(pool, now)
            wanted = pool.wanted(now, self._knobs.warm_window_seconds)
            while len(pool.ready) > wanted:
                self._drop(pool.ready.popleft()[0], "nobody asked for its kind any more")
            missing = min(wanted - len(pool.ready) - pool.making, self._knobs.warm_total - self._total())
            for _ in range(max(missing, 0) if now >= pool.not_before else 0):
                pool.making += 1
                spawn(self._fill(pool), f"warm {pool.spec.image}")
            if not wanted and not pool.making and not pool.asked:
                del self._pools[pool.key]

    def drain(self) -> list[Held]:
        """Everything that waits, given up."""
        held = [one for pool in self._pools.values() for one, _ in pool.ready]
        self._pools.clear()
        return held

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
                "most": pool.most,
            }
            for pool in self._pools.values()
        ]

    def _pool(self, spec: SandboxSpec, instance: str, most: int) -> Pool:
        key = spec_key(spec, instance)
        pool = self._pools.get(key)
        if pool is None:
            if len(self._pools) >= KNOWN_SPECS:
                idle = min(self._pools.values(), key=lambda one: one.asked[-1] if one.asked else 0.0)
                self._pools.pop(idle.key)
                for held, _ in idle.ready:
                    self._drop(held, "too many kinds are in use")
            pool = self._pools[key] = Pool(key, instance, plain(spec), most)
        return pool

    def _let_go(self, pool: Pool, now: float) -> None:
        keep: deque[tuple[Held, float]] = deque()
        for held, made in pool.ready:
            if held.channel.closed or now - made > self._knobs.warm_age_seconds:
                self._drop(held, "it had waited too long")
            else:
                keep.append((held, made))
        pool.ready = keep

    async def _fill(self, pool: Pool) -> None:
        made: Held | None = None
        try:
            made = await self._make(pool.spec, pool.instance, pool.key)
            pool.pause = 0.0
        except Exception as error:  # noqa: BLE001 (a pool that cannot be filled costs speed, nothing else)
            pool.pause = min(max(pool.pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
            pool.not_before = self._clock() + pool.pause
            log.warning("no ready sandbox of %s could be made: %s", pool.spec.image, error)
        finally:
            pool.making -= 1
        if made is None:
            return
        if self._pools.get(pool.key) is pool:
            pool.ready.append((made, self._clock()))
        else:
            self._drop(made, "nobody asked for its kind any more")

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

"""Parts of a simulated cluster: each has so many places, serves in turn, and counts what it did."""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from dataclasses import dataclass, field
from types import TracebackType


@dataclass(frozen=True, slots=True)
class ServiceTime:
    """Log-normal: of its mean and its standard deviation as a share of that."""

    mean: float
    spread: float = 0.0

    def draw(self, chance: random.Random) -> float:
        if not self.spread or not self.mean:
            return self.mean
        variance = math.log(1 + self.spread**2)
        return chance.lognormvariate(math.log(self.mean) - variance / 2, math.sqrt(variance))


@dataclass(slots=True)
class Part:
    """Places that work: cores, a provider's sequences, streams of a link. A visit's end is known as it comes."""

    kind: str
    places: int
    visits: int = 0
    waited: float = 0.0
    given: float = 0.0  # seconds of work, with what is still to be done
    _free: list[float] = field(default_factory=list)  # when each place gets free

    def __post_init__(self) -> None:
        self._free = [0.0] * self.places

    async def serve(self, seconds: float) -> None:
        now = asyncio.get_running_loop().time()
        begins = max(now, self._free[0])
        heapq.heapreplace(self._free, begins + seconds)
        self.visits += 1
        self.waited += begins - now
        self.given += seconds
        if begins + seconds > now:
            await asyncio.sleep(begins + seconds - now)

    def worked(self, now: float) -> float:
        """Seconds of work done by now, of all places."""
        return self.given - sum(max(free - now, 0.0) for free in self._free)


class ReplicaLock:
    """A process that does one thing at a time, on cores that others use as well."""

    __slots__ = ("_lock", "cores", "given", "held", "kind", "since", "visits")

    def __init__(self, kind: str, cores: Part) -> None:
        self.kind = kind
        self.cores = cores
        self._lock = asyncio.Lock()
        self.visits = 0
        self.held = 0.0  # seconds with the lock
        self.since: float | None = None
        self.given = 0.0

    places = 1

    async def serve(self, seconds: float) -> None:
        async with self._lock, _Holding(self):
            self.visits += 1
            self.given += seconds
            await self.cores.serve(seconds)

    def worked(self, now: float) -> float:
        return self.held + (now - self.since if self.since is not None else 0.0)


class _Holding:
    __slots__ = ("_one",)

    def __init__(self, one: ReplicaLock) -> None:
        self._one = one

    async def __aenter__(self) -> None:
        self._one.since = asyncio.get_running_loop().time()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._one.since is not None
        self._one.held += asyncio.get_running_loop().time() - self._one.since
        self._one.since = None


class Mirror:
    """A registry's copy near some nodes: it fetches an image once, unless it was filled before, and hands it out."""

    def __init__(self, registry: Part, link: Part, seconds: float, *, filled: bool) -> None:
        self._registry = registry
        self._filled = filled or link is registry
        self.link = link
        self._seconds = seconds
        self._coming: dict[str, asyncio.Task[None]] = {}

    async def pull(self, image: str) -> None:
        if not self._filled:
            if image not in self._coming:
                self._coming[image] = asyncio.create_task(self._registry.serve(self._seconds))
            await asyncio.shield(self._coming[image])
        await self.link.serve(self._seconds)

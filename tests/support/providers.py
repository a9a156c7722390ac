"""Providers that refuse, by chance or beyond a limit, and callers who keep them busy through a real `Upstream`."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from gym.server.upstream import TryOutcome, Upstream
from gym.wire.failures import RolloutError

REFUSAL_SECONDS = 0.01
Latency = Callable[[], float]
Refuses = Callable[["Provider", float], bool]


def between(least: float, most: float) -> Latency:
    return lambda: random.uniform(least, most)


@dataclass
class Provider:
    """Answers after `latency`, refuses what `refuses` says, counts both."""

    refuses: Refuses
    latency: Latency = field(default_factory=lambda: between(0.1, 0.3))
    status: int = 429
    headers: Mapping[str, str] = field(default_factory=lambda: {"retry-after": "1"})
    in_flight: int = 0
    answered: int = 0
    refused: int = 0

    async def ask(self, now: float) -> tuple[int, bytes, Mapping[str, str]]:
        if self.refuses(self, now):
            self.refused += 1
            await asyncio.sleep(REFUSAL_SECONDS)
            return self.status, orjson.dumps({"error": {"message": "slow down"}}), self.headers
        self.in_flight += 1
        try:
            await asyncio.sleep(self.latency())
        finally:
            self.in_flight -= 1
        self.answered += 1
        return 200, b"{}", {}

    @property
    def share_refused(self) -> float:
        return self.refused / max(self.refused + self.answered, 1)


def never() -> Refuses:
    return lambda provider, now: False


def chance(share: float) -> Refuses:
    return lambda provider, now: random.random() < share


def rate(per_second: float | Callable[[float], float], burst: float = 1.0) -> Refuses:
    """A token bucket; `burst` in seconds of its rate."""
    at = per_second if callable(per_second) else lambda now: per_second
    tokens, seen = math.inf, 0.0

    def refuses(provider: Provider, now: float) -> bool:
        nonlocal tokens, seen
        tokens = min(tokens + at(now) * (now - seen), max(at(now) * burst, 1.0))
        seen = now
        if tokens < 1:
            return True
        tokens -= 1
        return False

    return refuses


def at_once(most: int | Callable[[float], int]) -> Refuses:
    room = most if callable(most) else lambda now: most
    return lambda provider, now: provider.in_flight >= room(now)


def outage(began: float, ended: float, otherwise: Refuses | None = None) -> Refuses:
    rest = otherwise or never()
    return lambda provider, now: began <= now < ended or rest(provider, now)


def either(*several: Refuses) -> Refuses:
    return lambda provider, now: any([one(provider, now) for one in several])


class Simulated(Upstream):
    """Everything of `Upstream` but the socket."""

    def __init__(self, provider: Provider, **options: Any) -> None:
        super().__init__("http://provider.example/v1", **options)
        self._provider = provider

    async def _try(self, base: str, path: str, data: bytes, ends: float, root: bool) -> TryOutcome:
        status, body, headers = await self._provider.ask(asyncio.get_running_loop().time())
        return self._read(base + path, status, body, headers)


@dataclass
class Load:
    """What callers saw: each asks again as soon as it was answered."""

    done: int = 0
    seconds: float = 0.0
    failures: list[RolloutError] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.done / self.seconds

    async def run(self, upstream: Upstream, callers: int, seconds: float) -> Load:
        loop = asyncio.get_running_loop()
        self.seconds = seconds
        tasks = [loop.create_task(self._call(upstream)) for _ in range(callers)]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return self

    async def _call(self, upstream: Upstream) -> None:
        while True:
            try:
                await upstream.post("/responses", {"input": "hi"})
                self.done += 1
            except RolloutError as error:
                self.failures.append(error)

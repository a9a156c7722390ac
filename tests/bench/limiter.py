"""What refusals of a provider cost, beside the same provider without any: `python -m tests.bench.limiter`.

In simulated time through a real `Upstream` (a call takes 100 to 300 ms, a refusal 10 ms), then once on real sockets.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from gym.server.testing import running
from gym.server.upstream import Upstream
from tests.support.asgi import live
from tests.support.providers import Load, Provider, Refuses, Simulated, at_once, chance, either, never, outage, rate
from tests.support.simulated import simulate

PLACES = 64
CALLS = 320.0  # a second: what 64 calls at once of 200 ms give


class OnSockets:
    """A model of a provider as an ASGI app."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        await receive()
        status, body, headers = await self.provider.ask(asyncio.get_running_loop().time())
        sent = [(key.encode(), value.encode()) for key, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": body})


async def simulated(provider: Provider, callers: int, seconds: float) -> Load:
    return await Load().run(Simulated(provider, max_concurrent=PLACES), callers, seconds)


async def on_sockets(provider: Provider, callers: int, seconds: float) -> Load:
    async with running(OnSockets(provider)) as url:
        upstream = Upstream(url, max_concurrent=PLACES)
        try:
            return await Load().run(upstream, callers, seconds)
        finally:
            await upstream.aclose()


def show(name: str, ideal: float, provider: Provider, load: Load) -> None:
    ratio = f"{load.rate / ideal:5.2f} of {ideal:5.1f}/s"
    print(f"{name:58} {ratio}   refused {provider.share_refused:6.2%}   failed {len(load.failures)}")  # noqa: T201


def compare(name: str, ideal: float, make: Callable[[], Refuses], seeds: int, seconds: float, **more: Any) -> None:
    callers = more.pop("callers", PLACES)
    for seed in range(seeds):
        provider = Provider(make(), **more)
        show(f"{name}, seed {seed}", ideal, provider, simulate(simulated(provider, callers, seconds), seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sockets", type=float, default=20.0, help="seconds of the run on real sockets; 0: none")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    seeds, began = chosen.seeds, time.monotonic()
    for share in (0.01, 0.02, 0.05, 0.1):
        compare(f"{share:.0%} refused by chance, 128 callers", CALLS, partial(chance, share), seeds, 60, callers=128)
    compare("5% refused by chance, 64 callers", CALLS, lambda: chance(0.05), seeds, 60)
    for limit in (20, 100, 200):
        compare(f"{limit} calls a second", limit, partial(rate, limit), seeds, 300)
    compare("100 calls a second, 20 in a burst", 100, lambda: rate(100, 0.2), seeds, 300)
    for limit in (8, 20, 48):
        compare(f"{limit} at once", limit * 5, partial(at_once, limit), seeds, 300)
    compare("200, 50, 200 calls a second", 150, lambda: rate(lambda t: 50 if 100 <= t < 200 else 200), seeds, 300)
    compare("40, 10, 40 at once", 150, lambda: at_once(lambda t: 10 if 100 <= t < 200 else 40), seeds, 300)
    compare("nothing answered for 30 s of 120", CALLS * 0.75, lambda: outage(30, 60), seeds, 120)
    compare("the same with 503", CALLS * 0.75, lambda: outage(30, 60), seeds, 120, status=503)
    compare("the same without Retry-After", CALLS * 0.75, lambda: outage(30, 60), seeds, 120, headers={})
    compare("100 a second, and 5% by chance", 95, lambda: either(chance(0.05), rate(100)), seeds, 300)
    if chosen.sockets:
        compare_on_sockets(chosen.sockets)
    print(f"{time.monotonic() - began:.0f} s")  # noqa: T201


def compare_on_sockets(seconds: float) -> None:
    """The ideal is measured, not computed: the machine has a say."""
    plain = Provider(never())
    ideal = asyncio.run(on_sockets(plain, 2 * PLACES, seconds)).rate
    for name, refuses in {"5% by chance, 128 callers": chance(0.05), "100 calls a second": rate(100)}.items():
        provider = Provider(refuses)
        load = asyncio.run(on_sockets(provider, 2 * PLACES, seconds))
        show(f"sockets: {name}", ideal if "chance" in name else 100, provider, load)


if __name__ == "__main__":
    main()

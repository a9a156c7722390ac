"""From `POST /sandboxes` to the first command's output, one sandbox of a swe task a second: p50 and p95.

    PYTHONPATH=. .venv/bin/python tests/bench/sandbox_pace.py [--seconds 30] [--blocks 2] [--every 1.0]

From the warm pool, without it, and the engine's own create, start and exec, in turns in the same run. Each is removed
after its output came, while the next ones are made.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from gym.sandbox.broker_client import Sandboxes
from gym.wire.sandbox import Grant
from tests.bench.sandbox_broker import ByHand, show
from tests.support.sandbox_broker import OTHER_TOKEN, TOKEN, broker_process

# What the swe server asks for: its default limits, no network, a label that says for what.
LIMITS: dict[str, Any] = {"cpus": 1.0, "memory": 2 << 30, "pids": 512}
SPEC: dict[str, Any] = {"limits": LIMITS, "ttl": 7200, "labels": {"swe.role": "agent"}}
Once = Callable[[], Awaitable[Callable[[], Awaitable[None]]]]  # up to the output; what it returns removes it


async def through(sandboxes: Sandboxes, image: str) -> Callable[[], Awaitable[None]]:
    sandbox = await sandboxes.create({**SPEC, "image": image})
    assert (await sandbox.exec(["echo", "ready"])).stdout.text == "ready\n"
    return sandbox.delete


async def by_hand(hand: ByHand) -> Callable[[], Awaitable[None]]:
    container = await hand.create()
    await hand.exec(container)
    return lambda: hand.remove(container)


async def at_pace(once: Once, count: int, every: float) -> list[float]:
    """Milliseconds of each; one that takes longer than its turn does not hold up the next."""
    loop = asyncio.get_running_loop()
    began, figures = loop.time(), []

    async def one(number: int) -> None:
        await asyncio.sleep(began + number * every - loop.time())
        start = time.perf_counter()
        remove = await once()
        figures.append((time.perf_counter() - start) * 1e3)
        await remove()

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(one(number))
    return figures


async def measure(warm: Sandboxes, cold: Sandboxes, hand: ByHand, options: argparse.Namespace) -> None:
    arms: dict[str, Once] = {
        "by hand": lambda: by_hand(hand),
        "without a pool": lambda: through(cold, options.image),
        "from the warm pool": lambda: through(warm, options.image),
    }
    found: dict[str, list[float]] = {name: [] for name in arms}
    count = int(options.seconds / options.every)
    print(f"load before: {os.getloadavg()[0]:.1f}")
    for _ in range(options.blocks):
        for name, once in arms.items():
            found[name] += await at_pace(once, count, options.every)
    for name, figures in found.items():
        show(f"{name}, {len(figures)} of them", figures, found["by hand"])
    status = await warm.status()
    print(f"pools: {status['warm']}")
    print(f"load after: {os.getloadavg()[0]:.1f}; left: {len(await warm.alive()) + len(await cold.alive())}")


async def run(options: argparse.Namespace) -> None:
    hand = ByHand(options.image, {"Memory": LIMITS["memory"], "PidsLimit": LIMITS["pids"]})
    await hand.engine.open()
    grant = Grant(images=("*",), warm=options.warm)
    other = Grant(images=("*",), warm=0)
    with (
        tempfile.TemporaryDirectory() as folder,
        broker_process(Path(folder), "docker", grant=grant, other=other) as broker,
    ):
        async with Sandboxes(broker.url, TOKEN) as warm, Sandboxes(broker.url, OTHER_TOKEN) as cold:
            await measure(warm, cold, hand, options)
    await hand.engine.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--every", type=float, default=1.0)
    parser.add_argument("--warm", type=int, default=4)
    parser.add_argument("--image", default="python:3.13-slim")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()

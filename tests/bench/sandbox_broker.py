"""Sandboxes through the broker's HTTP beside the same engine by hand, in the same run.

    PYTHONPATH=. .venv/bin/python tests/bench/sandbox_broker.py [--rounds 20] [--cycles 100] [--at-once 32]

Create from cold and from the warm pool, a short command, many sandboxes one after another; what is left at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from gym.broker.providers.docker.engine_client import EngineClient
from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.wire.sandbox import Grant
from tests.support.sandbox_broker import TOKEN, broker_process

LIMITS = {"Memory": 512 << 20, "PidsLimit": 256, "NanoCpus": 10**9, "NetworkMode": "none", "CapDrop": ["ALL"]}


async def timed(rounds: int, work: Callable[[], Awaitable[object]]) -> list[float]:
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        await work()
        found.append((time.perf_counter() - began) * 1e3)
    return found


def show(what: str, milliseconds: list[float], base: list[float] | None = None) -> None:
    ordered = sorted(milliseconds)
    middle, late = statistics.median(ordered), ordered[int(len(ordered) * 0.95)]
    ratio = f"  {middle / statistics.median(base):.2f}x by hand" if base else ""
    print(f"{what:<42} p50 {middle:8.2f} ms  p95 {late:8.2f} ms{ratio}")


class ByHand:
    def __init__(self, image: str, limits: dict[str, int] | None = None) -> None:
        self.engine = EngineClient()
        self.image = image
        self.limits = {**LIMITS, **(limits or {})}

    async def create(self) -> str:
        body = {"Image": self.image, "Entrypoint": ["sleep"], "Cmd": ["600"], "HostConfig": self.limits}
        made = await self.engine.call("POST", "/containers/create", json=body, doing="create")
        await self.engine.call("POST", f"/containers/{made['Id']}/start", doing="start")
        return str(made["Id"])

    async def exec(self, container: str) -> None:
        body = {"AttachStdout": True, "AttachStderr": True, "Cmd": ["true"]}
        made = await self.engine.call("POST", f"/containers/{container}/exec", json=body, doing="exec")
        attached = await self.engine.attach(f"/exec/{made['Id']}/start", json={"Detach": False}, doing="exec")
        await attached.reader.read()
        attached.close()

    async def remove(self, container: str) -> None:
        await self.engine.call("DELETE", f"/containers/{container}?force=1", doing="remove")

    async def cycle(self) -> None:
        container = await self.create()
        await self.exec(container)
        await self.remove(container)


async def many(count: int, at_once: int, cycle: Callable[[], Awaitable[None]]) -> float:
    gate = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with gate:
            await cycle()

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())
    return count / (time.perf_counter() - began)


async def wait_for_warm(sandboxes: Sandboxes, ready: int) -> None:
    while sum(pool["ready"] for pool in (await sandboxes.status())["warm"]) < ready:
        await asyncio.sleep(0.05)


async def measure(sandboxes: Sandboxes, hand: ByHand, options: argparse.Namespace) -> None:
    cold = {"image": options.image, "labels": {}}
    container = await hand.create()
    by_hand = await timed(options.rounds, lambda: hand.exec(container))
    sandbox = await sandboxes.create(cold)
    show("a short command", await timed(options.rounds * 10, lambda: sandbox.exec(["true"])), by_hand)
    await hand.remove(container)
    await sandbox.delete()

    made: list[Sandbox] = []

    async def from_cold() -> None:  # each of a kind of its own: none is ready
        made.append(await sandboxes.create({**cold, "env": {"N": str(len(made))}}))
        await made[-1].exec(["true"])

    async def from_warm() -> None:
        made.append(await sandboxes.create(cold))

    hands: list[str] = []

    async def raw() -> None:
        hands.append(await hand.create())
        await hand.exec(hands[-1])

    baseline = await timed(options.rounds, raw)
    show("create to first command, cold", await timed(options.rounds, from_cold), baseline)
    await from_warm()
    await from_warm()
    warm = []
    for _ in range(options.rounds):
        await wait_for_warm(sandboxes, 1)
        warm += await timed(1, from_warm)
    show("create from the warm pool", warm, baseline)
    for one in made:
        await one.delete()
    for container in hands:
        await hand.remove(container)

    async def cycle() -> None:
        async with await sandboxes.create({**cold, "user": "root"}) as one:
            await one.exec(["true"])

    raw_rate = await many(options.cycles, options.at_once, hand.cycle)
    rate = await many(options.cycles, options.at_once, cycle)
    print(f"{options.cycles} cycles, {options.at_once} at once: {rate:.1f}/s; by hand {raw_rate:.1f}/s")
    print(f"left at the end: {len(await sandboxes.alive())}")


async def run(options: argparse.Namespace) -> None:
    grant = Grant(images=("*",), warm=8, max_sandboxes=1000)
    hand = ByHand(options.image)
    await hand.engine.open()
    with tempfile.TemporaryDirectory() as folder, broker_process(Path(folder), "docker", grant=grant) as broker:
        async with Sandboxes(broker.url, TOKEN) as sandboxes:
            await measure(sandboxes, hand, options)
    await hand.engine.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--image", default="python:3.13-slim")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()

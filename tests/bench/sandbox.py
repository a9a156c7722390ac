"""Sandboxes of the Docker provider beside the same engine by hand, in the same run: network none, same limits.

    .venv/bin/python tests/bench/sandbox.py [--rounds 20] [--alive 50] [--cycles 200] [--at-once 32]

By hand: create, start, exec through the Engine API with the same client. The issue's sizes: --alive 200 --cycles 2000.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import secrets
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import uvloop

from gym.broker.provider import Tags
from gym.broker.providers.docker.create_body import ContainerSetup, create_body
from gym.broker.providers.docker.docker_provider import Docker
from gym.broker.providers.docker.docker_sandbox import DockerSandbox, remove_container
from gym.wire.sandbox import ExecRequest, SandboxSpec

TRUE = ExecRequest(argv=("true",))
T = TypeVar("T")


class Bench:
    def __init__(self, docker: Docker, image: str) -> None:
        self.docker = docker
        self.stack = f"bench-{secrets.token_hex(4)}"
        self.spec = SandboxSpec(image=image)
        self._numbers: Iterator[int] = itertools.count()

    def tags(self) -> Tags:
        return Tags(f"b{next(self._numbers)}-{self.stack}", self.stack, "bench", "bench", expires=time.time() + 3600)

    async def make(self) -> DockerSandbox:
        return await self.docker.create(self.spec, self.tags())

    async def make_by_hand(self) -> str:
        engine, tags = self.docker.engine, self.tags()
        body = create_body(self.spec, tags, ContainerSetup(image=str(self.spec.image), helper=""))
        body |= {"Entrypoint": ["sleep"], "Cmd": ["3600"], "OpenStdin": False}
        body["HostConfig"]["Mounts"] = []
        made = await engine.call("POST", "/containers/create", {"name": f"gym-{tags.id}"}, json=body, doing="create")
        await engine.call("POST", f"/containers/{made['Id']}/start", doing="start")
        return str(made["Id"])

    async def exec_by_hand(self, container: str) -> None:
        engine = self.docker.engine
        body = {"AttachStdout": True, "AttachStderr": True, "Cmd": ["true"]}
        made = await engine.call("POST", f"/containers/{container}/exec", json=body, doing="exec")
        attached = await engine.attach(f"/exec/{made['Id']}/start", json={"Detach": False}, doing="exec")
        await attached.reader.read()
        attached.close()
        reply = await engine.call("GET", f"/exec/{made['Id']}/json", doing="exec")
        assert reply["ExitCode"] == 0

    async def left(self) -> int:
        query: dict[str, Any] = {"all": True, "filters": f'{{"label":["gym.stack={self.stack}"]}}'}
        return len(await self.docker.engine.call("GET", "/containers/json", query, doing="list"))

    async def list_once(self) -> float:
        took, _ = await timed(self.docker.engine.call("GET", "/containers/json", {"all": True}, doing="list"))
        return took


async def timed(work: Awaitable[T]) -> tuple[float, T]:
    began = time.perf_counter()
    value = await work
    return (time.perf_counter() - began) * 1e3, value


def spread(figures: list[float]) -> str:
    ordered = sorted(figures)
    at = [ordered[0], statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]]
    return "/".join(f"{one:.1f}" for one in at) + " ms (min/p50/p95)"


def goal(found: float, wanted: float) -> str:
    """What was aimed at on a quiet machine; the bench measures and does not fail."""
    return f"goal {wanted:g}, {'reached' if found <= wanted else 'missed'}"


async def first_exec(bench: Bench, rounds: int) -> None:
    ours, bare = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        sandbox = await bench.make()
        await sandbox.channel.exec(TRUE)
        ours.append((time.perf_counter() - began) * 1e3)
        await sandbox.remove()
        began = time.perf_counter()
        container = await bench.make_by_hand()
        await bench.exec_by_hand(container)
        bare.append((time.perf_counter() - began) * 1e3)
        await remove_container(bench.docker.engine, container)
    ratio = statistics.median(ours) / statistics.median(bare)
    aim = goal(ratio, 1.3)
    print(f"create to first exec: {spread(ours)}; by hand {spread(bare)}; ratio of p50 {ratio:.2f} ({aim})")


async def short_exec(bench: Bench, rounds: int) -> None:
    sandbox, container = await bench.make(), await bench.make_by_hand()
    ours = [(await timed(sandbox.channel.exec(TRUE)))[0] for _ in range(10 * rounds)]
    bare = [(await timed(bench.exec_by_hand(container)))[0] for _ in range(2 * rounds)]
    await asyncio.gather(sandbox.remove(), remove_container(bench.docker.engine, container))
    print(f"exec of `true`: {spread(ours)} (p50: {goal(statistics.median(ours), 10)}); by hand {spread(bare)}")


async def fork(bench: Bench, rounds: int) -> None:
    parent = await bench.make()
    await parent.channel.make_dir("/changed")
    for number in range(100):
        await parent.channel.write_file(f"/changed/{number}", os.urandom(100_000))
    figures = []
    for _ in range(max(3, rounds // 2)):
        began = time.perf_counter()
        child = await parent.fork(bench.tags())
        await child.channel.exec(TRUE)
        figures.append((time.perf_counter() - began) * 1e3)
        await child.remove()
    await parent.remove()
    aim = goal(statistics.median(figures), 250)
    print(f"fork to first exec, 10 MB changed in 100 files: {spread(figures)} (p50: {aim})")


async def alive(bench: Bench, count: int) -> None:
    gate, made = asyncio.Semaphore(8), []

    async def one() -> None:
        async with gate:
            made.append(await bench.make())

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(count)))
    rate = count / (time.perf_counter() - began)
    execs = [(await timed(sandbox.channel.exec(TRUE)))[0] for sandbox in made]
    lists = [await bench.list_once() for _ in range(20)]
    took, _ = await timed(asyncio.gather(*(sandbox.remove() for sandbox in made)))
    print(
        f"{count} alive at once: made at {rate:.1f}/s; exec in each {spread(execs)}; list {spread(lists)}; "
        f"all removed in {took / 1e3:.1f} s, {await bench.left()} left"
    )


async def cycle(bench: Bench) -> None:
    sandbox = await bench.make()
    try:
        assert (await sandbox.channel.exec(TRUE)).ok
    finally:
        await sandbox.remove()


async def cycle_by_hand(bench: Bench) -> None:
    container = await bench.make_by_hand()
    await bench.exec_by_hand(container)
    await remove_container(bench.docker.engine, container)


async def cycles(bench: Bench, name: str, one: Callable[[Bench], Awaitable[None]], count: int, at_once: int) -> float:
    """Cycles a second; lists are asked for meanwhile."""
    gate, failed, lists = asyncio.Semaphore(at_once), [], []

    async def guarded() -> None:
        async with gate:
            try:
                await one(bench)
            except Exception as error:  # noqa: BLE001 (whatever it is, it is counted and shown)
                failed.append(error)

    async def watch() -> None:
        while True:
            lists.append(await bench.list_once())
            await asyncio.sleep(0.5)

    watcher = asyncio.create_task(watch())
    began = time.perf_counter()
    await asyncio.gather(*(guarded() for _ in range(count)))
    rate = count / (time.perf_counter() - began)
    watcher.cancel()
    await asyncio.gather(watcher, return_exceptions=True)
    words = f"; first failure: {failed[0]}" if failed else ""
    print(f"{count} cycles, {at_once} at once, {name}: {rate:.2f}/s, {len(failed)} failed, {await bench.left()} left")
    print(f"    list meanwhile {spread(lists)}{words}")
    return rate


async def measure(options: argparse.Namespace) -> None:
    docker = Docker()
    await docker.open()
    bench = Bench(docker, options.image)
    try:
        await cycle(bench)
        await first_exec(bench, options.rounds)
        await short_exec(bench, options.rounds)
        await fork(bench, options.rounds)
        await alive(bench, options.alive)
        ours = await cycles(bench, "ours", cycle, options.cycles, options.at_once)
        bare = await cycles(bench, "by hand", cycle_by_hand, max(options.cycles // 4, 8), options.at_once)
        print(f"    by hand / ours: {bare / ours:.2f} ({goal(bare / ours, 1.2)})")
    finally:
        await docker.sweep(bench.stack, frozenset())
        await docker.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", default="docker.io/library/python:3.13-slim")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--alive", type=int, default=50)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=32)
    uvloop.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()

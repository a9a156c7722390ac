"""How long a Compose stack takes, beside what the engine alone takes: python -m tests.bench.compose_up

Prints: up of five servers, up with no change, up after one edit, ten images, 2,000 counter rollouts over 8 replicas.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gym.collect import AttemptOptions, collect
from gym.engine import docker_environ
from gym.http.pool import HttpClient
from gym.programs import run_program
from gym.runtime.status import StackStatus
from tests.support.docker import Stand, engine_client, need_engine, replicas, stand_in, write_server

if TYPE_CHECKING:
    import docker

SERVER = """
from gym.server import ResourcesServer

class Fine(ResourcesServer):
    async def verify(self, rollout) -> float:
        return 1.0

app = Fine.app()
"""
ROWS = Path(__file__).parents[2] / "servers" / "resources" / "stateful_counter" / "data" / "example.jsonl"
# Small, without dependencies, and none of them in the SDK.
PACKAGES = (
    "six",
    "toml",
    "tabulate",
    "xxhash",
    "regex",
    "sortedcontainers",
    "cachetools",
    "more-itertools",
    "backports.zstd",
    "lxml",
)


@contextlib.contextmanager
def timed(what: str, limit: str = "") -> Iterator[None]:
    started = time.perf_counter()
    yield
    print(f"{what:<58} {time.perf_counter() - started:7.2f} s   {limit}")


def bare_containers(count: int) -> None:
    """The baseline: the same engine and image, servers that do nothing, in one `docker compose up --wait`."""
    service = {"image": "python:3.13-slim", "command": ["python3", "-m", "http.server"], "init": True}
    document = json.dumps({"name": "gym-bench-bare", "services": {f"s{number}": service for number in range(count)}})
    environ = docker_environ(need_engine())
    compose = ("docker", "compose", "--file", "-", "--project-name", "gym-bench-bare")
    try:
        with timed(f"baseline: {count} idle containers, docker compose up"):
            run_program((*compose, "up", "--detach", "--wait"), env=environ, input=document)
    finally:
        run_program((*compose, "down", "--timeout", "1"), env=environ, input=document)


def five_servers(cwd: Path) -> None:
    names = [f"bench{number}" for number in range(5)]
    for name in names:
        write_server(cwd, name, SERVER)
    with stand_in(cwd) as stand:
        stand.up(*names)
        stand.down()
        with timed("up of 5 servers, images built", "(figure: <= 8 s)"):
            stand.up(*names)
        with timed("up with no change", "(figure: <= 1.5 s)"):
            stand.up(*names)
        write_server(cwd, "bench0", SERVER + "# edited\n")
        with timed("one app.py edited: rebuilt and healthy", "(figure: <= 6 s)"):
            stand.up(*names)


def ten_images(cwd: Path) -> None:
    names = [f"image{number}" for number in range(10)]
    for name, package in zip(names, PACKAGES, strict=True):
        write_server(cwd, name, SERVER, requirements=f"{package}  # {cwd}\n")
    with stand_in(cwd) as stand:
        stand.home.mkdir(parents=True)
        plan, _ = stand.plan(*names)
        with timed("ten images, each with a requirement of its own", "(figure: <= 90 s)"):
            stand.runtime.build(stand.home, stand.runtime.prepare(stand.home, plan, {}), lambda _: None)
        images = stand.images(plan)
        with engine_client() as client:
            base, *sizes = (_size(client, tag) for tag in (images.base, *(one.tag for one in images.targets)))
        more = (max(sizes) - base) / 1e6
        print(f"  disk: base {base / 1e6:.0f} MB, the largest of the ten {more:.1f} MB more   (figure: <= 40 MB)")


async def rollouts(status: StackStatus, total: int, concurrency: int) -> Counter[str]:
    rows: list[dict[str, Any]] = [json.loads(line) for line in ROWS.read_text().splitlines()]
    options = AttemptOptions(concurrency=concurrency, max_attempts=1)
    ends: Counter[str] = Counter()
    async for one in collect(status.router, rows, repeats=total // len(rows), options=options):
        ends[str(one.failure.kind) if one.failure else str(one.reward)] += 1
    return ends


def counters(cwd: Path, total: int = 2000) -> None:
    with stand_in(cwd) as stand:
        counts = {"stateful_counter": 8, "stateful_counter_simple_agent": 2}
        status = Stand.up(stand, "stateful_counter", replicas=counts)
        with timed(f"{total} counter rollouts in flight at once, 8 replicas"):
            ends = asyncio.run(rollouts(status, total, total))
        print(f"  rewards: {dict(ends)}   (figure: 0 wrong)")


def router_against_straight(cwd: Path, total: int = 6000, in_flight: int = 64) -> None:
    """Both by a port that the engine publishes on loopback, so that only the router is the difference."""
    write_server(cwd, "bench", SERVER)
    override = cwd / "published.yaml"
    override.write_text("services: {bench: {ports: ['127.0.0.1::8000']}}\n")
    with stand_in(cwd, overrides=(override,)) as stand, engine_client() as client:
        status = stand.up("bench")
        names = replicas(status)
        published = client.api.inspect_container(names["bench-1"])["NetworkSettings"]["Ports"]["8000/tcp"][0][
            "HostPort"
        ]
        urls = {
            "straight": f"http://127.0.0.1:{published}/healthz",
            "by the router": f"{status.router}/s/bench/healthz",
        }
        rates = {}
        for name in [*urls, *urls]:  # twice: the first round warms both
            before = _cpu_seconds(client, names["router"])
            seconds = asyncio.run(_requests(urls[name], total, in_flight))
            rates[name] = total / seconds, (_cpu_seconds(client, names["router"]) - before) / total * 1e6
        for name, (rate, cpu) in rates.items():
            print(f"{total} requests, {in_flight} at once, {name:<13} {rate:7.0f} /s, router {cpu:.0f} us CPU each")
        print(f"  ratio {rates['by the router'][0] / rates['straight'][0]:.2f}")


async def _requests(url: str, total: int, in_flight: int) -> float:
    http = HttpClient()
    todo = iter(range(total))

    async def work() -> None:
        for _ in todo:
            reply = await http.request("GET", url, timeout=30)
            assert reply.status == 200, reply

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(work())
    seconds = time.perf_counter() - started
    await http.aclose()
    return seconds


def _size(client: docker.DockerClient, tag: str) -> int:
    return int(client.images.get(tag).attrs["Size"])


def _cpu_seconds(client: docker.DockerClient, container: str) -> float:
    stats = client.api.stats(container, stream=False, one_shot=True)
    return float(stats["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9


def main() -> None:
    os.environ.setdefault("GYM_OWNER", "bench")
    bare_containers(7)
    for work in (five_servers, ten_images, counters, router_against_straight):
        with tempfile.TemporaryDirectory() as folder:
            work(Path(folder))


if __name__ == "__main__":
    main()

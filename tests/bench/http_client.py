"""CPU of one request on the rollout's path, by HTTP client: 4 KB up, 4 KB down, 64 in flight, everything on uvloop.

    .venv/bin/python tests/bench/http_client.py [--requests 20000] [--rounds 3]

The server is a process of its own and is not counted; every client is one too. A client that is not installed is left
out. The best of some rounds counts; ratios are to the client of this package.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import httptools
import uvloop

from gym.http.pool import HttpClient

BODY = json.dumps({"text": "x" * 4076}).encode()
REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY
IN_FLIGHT = 64
JSON = "application/json"
Post = Callable[[], Awaitable[bytes]]


class Constant(asyncio.Protocol):
    """The cheapest server that still reads what it is sent."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        self._transport.write(REPLY)


@asynccontextmanager
async def gym_client(url: str) -> AsyncIterator[Post]:
    client = HttpClient()
    headers = [(b"x-gym-rollout-id", b"7-1"), (b"x-gym-timeout", b"100.000")]

    async def post() -> bytes:
        return (await client.request("POST", url, body=BODY, headers=headers, timeout=100.0)).body

    yield post
    await client.aclose()


@asynccontextmanager
async def aiohttp_client(url: str) -> AsyncIterator[Post]:
    import aiohttp

    headers = {"content-type": JSON, "x-gym-rollout-id": "7-1", "x-gym-timeout": "100.000"}
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=100.0)
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=jar) as session:

        async def post() -> bytes:
            async with session.post(url, data=BODY, headers=headers) as reply:
                return await reply.read()

        yield post


@asynccontextmanager
async def httpx_client(url: str) -> AsyncIterator[Post]:
    import httpx

    headers = {"content-type": JSON, "x-gym-rollout-id": "7-1", "x-gym-timeout": "100.000"}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=100.0, trust_env=False) as client:

        async def post() -> bytes:
            return (await client.post(url, content=BODY, headers=headers)).content

        yield post


@asynccontextmanager
async def pyreqwest_client(url: str) -> AsyncIterator[Post]:
    builder: Any = importlib.import_module("pyreqwest.client").ClientBuilder
    headers = {"content-type": JSON, "x-gym-rollout-id": "7-1", "x-gym-timeout": "100.000"}
    async with builder().build() as client:

        async def post() -> bytes:
            reply = await client.post(url).headers(headers).body_bytes(BODY).build().send()
            return bytes(await reply.bytes())

        yield post


CLIENTS = {
    "gym.http.pool": ("gym", gym_client),
    "pyreqwest": ("pyreqwest", pyreqwest_client),
    "aiohttp": ("aiohttp", aiohttp_client),
    "httpx": ("httpx", httpx_client),
}


async def measure(name: str, url: str, requests: int) -> dict[str, float]:
    async with CLIENTS[name][1](url) as post:
        assert await post() == BODY
        await play(post, requests // 10)
        cpu, wall = time.process_time(), time.perf_counter()
        await play(post, requests)
        spent = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    return {"us": spent["cpu"] / requests * 1e6, "rate": requests / spent["wall"]}


async def play(post: Post, requests: int) -> None:
    left = iter(range(requests))

    async def worker() -> None:
        for _ in left:
            await post()

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(worker())


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Constant, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def calibrate() -> float:
    """CPU seconds of ten million additions: what this machine is worth."""
    begun, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return time.process_time() - begun


def compare(options: argparse.Namespace) -> None:
    print(f"calibration loop: {calibrate():.3f} s CPU for 10 million additions")
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/run"
        measured = {
            name: best(name, url, options) for name, (module, _) in CLIENTS.items() if importlib.util.find_spec(module)
        }
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()
    ours = measured["gym.http.pool"]["us"]
    print(f"{'client':<18}{'CPU us/request':>16}{'ratio':>8}{'requests/s':>13}")
    for name, one in measured.items():
        print(f"{name:<18}{one['us']:>16.1f}{one['us'] / ours:>8.2f}{one['rate']:>13,.0f}")


def best(name: str, url: str, options: argparse.Namespace) -> dict[str, float]:
    requests = options.requests if name != "httpx" else max(options.requests // 10, 640)
    argv = [sys.executable, __file__, "--client", name, "--url", url, "--requests", str(requests)]
    rounds: list[dict[str, float]] = [
        json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout) for _ in range(options.rounds)
    ]
    return min(rounds, key=lambda one: one["us"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    for hidden in ("--client", "--url"):
        parser.add_argument(hidden, default="", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        with contextlib.suppress(KeyboardInterrupt):
            uvloop.run(serve())
    elif options.client:
        print(json.dumps(uvloop.run(measure(options.client, options.url, options.requests))))
    else:
        compare(options)


if __name__ == "__main__":
    main()

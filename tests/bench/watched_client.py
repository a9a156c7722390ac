"""What it costs to notice a peer that vanished: CPU of a request with keepalive and questions, and without.

    PYTHONPATH=. .venv/bin/python tests/bench/watched_client.py [--rounds 120]

Both clients live in one process and take turns, for two processes differ by more than this costs; `again` is a second
client without, and shows by how much two equal ones differ.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

import uvloop

from gym.http import pool
from gym.http.pool import HttpClient
from tests.bench.http_client import BODY, play

REQUESTS = 2000
HEADERS = ((b"x-gym-rollout-id", b"7-1"), (b"x-gym-timeout", b"100.000"))
WATCHED = {"watched": True, "unwatched": False, "again": False}
Post = Callable[[], Awaitable[bytes]]


async def measure(url: str, rounds: int) -> dict[str, list[float]]:
    module: Any = pool
    keep = module.keep_transport_alive
    clients: dict[str, HttpClient] = {}
    spent: dict[str, list[float]] = {name: [] for name in WATCHED}
    for name, watched in WATCHED.items():  # each opens its connections now
        module.keep_transport_alive = keep if watched else (lambda *_, **__: None)
        clients[name] = HttpClient(asks_health=watched)
        await play(post_of(clients[name], url), REQUESTS)
    for number in range(rounds):
        for name in (*WATCHED,) if number % 2 else (*WATCHED,)[::-1]:
            begun = time.process_time()
            await play(post_of(clients[name], url), REQUESTS)
            spent[name].append((time.process_time() - begun) / REQUESTS * 1e6)
    for client in clients.values():
        await client.aclose()
    return spent


def post_of(client: HttpClient, url: str) -> Post:
    async def post() -> bytes:
        return (await client.request("POST", url, body=BODY, headers=HEADERS, timeout=100.0)).body

    return post


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=120)
    rounds = parser.parse_args().rounds
    argv = [sys.executable, "-m", "tests.bench.http_client", "--serve"]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        spent = uvloop.run(measure(f"http://127.0.0.1:{server.stdout.readline().strip()}/run", rounds))
    finally:
        server.terminate()
        server.communicate()
    for name, each in spent.items():
        pairs = median(one / base for one, base in zip(each, spent["unwatched"], strict=True))
        print(f"{name:10} {median(each):6.2f} us of CPU a request, {pairs:.3f} of unwatched")  # noqa: T201


if __name__ == "__main__":
    main()

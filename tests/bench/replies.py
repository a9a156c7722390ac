"""CPU of a request to a hot route: head and body of the reply in one write, and in the two of plain uvicorn.

    PYTHONPATH=. .venv/bin/python tests/bench/replies.py [--requests 20000] [--rounds 6]

Server and client are two processes; the rounds of both ways alternate, and the least of each is printed, for other
work on the machine only adds. The ratio is to plain uvicorn with its middleware for proxies' headers, in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

import uvloop

from gym.http.pool import HttpClient
from tests.bench.served_process import cpu_seconds, served

APP = """
from gym.server import serve
from gym.server.asgi import Answer, HotRoutes

async def verify(call):
    return Answer(b'{"reward":1.0,"more":"' + b"y" * 900 + b'"}')

async def health(call):
    return Answer(b"{}")

async def rest(scope, receive, send):
    while scope["type"] == "lifespan":
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return

app = HotRoutes(rest, "bench", "resources", {("POST", "/verify"): verify, ("GET", "/healthz"): health})
"""
PLAIN = """
import uvicorn
make = uvicorn.Config
uvicorn.Config = lambda *given, **named: make(*given, **{**named, "http": "httptools", "proxy_headers": True})
"""
BODY = b'{"a":"' + b"z" * 1500 + b'"}'
HEADERS = [(b"x-gym-rollout-id", b"7-1"), (b"cookie", b"gym_session=b3c9a1f07e")]
AT_ONCE = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    least = {"one write": (1.0, 1.0), "two writes": (1.0, 1.0)}
    for _ in range(options.rounds):
        for way, before in least.items():
            spent = measure(PLAIN if way == "two writes" else "", options.requests)
            least[way] = (min(before[0], spent[0]), min(before[1], spent[1]))
    server, client = least["two writes"]
    for way, spent in least.items():
        shares = f"{spent[0] / server:.2f} and {spent[1] / client:.2f} of two writes"
        print(f"{way}: server {spent[0] * 1e6:.1f} us, client {spent[1] * 1e6:.1f} us a request; {shares}")


def measure(before: str, requests: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(before + APP)
        with served(Path(folder), {}) as (pid, url):
            return uvloop.run(ask(pid, f"{url}/verify", requests))


async def ask(pid: int, url: str, requests: int) -> tuple[float, float]:
    http = HttpClient(asks_health=False)

    async def work(times: int) -> None:
        for _ in range(times):
            await http.request("POST", url, body=BODY, headers=HEADERS, timeout=60)

    await asyncio.gather(*(work(20) for _ in range(AT_ONCE)))
    server, client = cpu_seconds(pid), time.process_time()
    each = requests // AT_ONCE
    await asyncio.gather(*(work(each) for _ in range(AT_ONCE)))
    count = each * AT_ONCE
    spent = (cpu_seconds(pid) - server) / count, (time.process_time() - client) / count
    await http.aclose()
    return spent


if __name__ == "__main__":
    main()

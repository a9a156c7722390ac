"""POST /verify of a server through uvicorn, on one core: requests a second and percentiles at 64 in flight.

    .venv/bin/python tests/bench/verify.py [--server mcqa] [--case NAME] [--bytes 4096] [--requests 20000] [--rate 2500]

The body is an oracle case of the server, filled up to its size. The client writes bytes that were made before and
counts replies; it has another core. CPU of the server and a bare ASGI app in the same uvicorn stand beside it: on a
machine that has other work, requests per second of CPU are the figure to trust. Without --rate every connection asks
again as soon as it is answered, so latency is mostly the queue of the 63 others; with it, what a verify takes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

import uvloop

from gym.labels import ENV_LISTEN
from gym.server.cases import CASES, load_cases
from gym.server.serve import listen

RESOURCES = Path(__file__).parents[2] / "servers" / "resources"
BARE = """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in range(2):
            await send({"type": (await receive())["type"] + ".complete"})
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d")]})
    await send({"type": "http.response.body", "body": b"x" * %d})
"""


class Round(NamedTuple):
    per_second: float
    per_cpu_second: float
    p50_ms: float
    p99_ms: float


class Client(asyncio.Protocol):
    """One connection: the same request again and again, as long as there are some left; `every` so many seconds."""

    def __init__(
        self,
        request: bytes,
        left: list[int],
        seconds: list[float],
        done: asyncio.Future[None],
        every: float,
        first: float,
    ) -> None:
        self._request, self._left, self._seconds, self._done = request, left, seconds, done
        self._every, self._due = every, first
        self._need = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._ask()

    def data_received(self, data: bytes) -> None:
        if not self._need:
            head, _, body = data.partition(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                self._end(RuntimeError(data[:2000].decode("utf-8", "replace")))
                return
            self._need = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]) - len(body)
        else:
            self._need -= len(data)
        if self._need <= 0:
            self._need = 0
            self._seconds.append(time.perf_counter() - self._began)
            self._ask()

    def _ask(self) -> None:
        if self._left[0] <= 0:
            self._end(None)
            return
        self._left[0] -= 1
        if not self._every:
            self._send(time.perf_counter())
            return
        self._due += self._every
        wait = self._due - time.perf_counter()
        if wait > 0:
            asyncio.get_running_loop().call_later(wait, self._send, self._due)
        else:
            self._send(self._due)

    def _send(self, began: float) -> None:
        """Time counts from when the request was due: what waits behind a slow one is slow as well."""
        self._began = began
        self._transport.write(self._request)

    def _end(self, error: Exception | None) -> None:
        self._transport.close()
        if not self._done.done():
            self._done.set_exception(error) if error else self._done.set_result(None)


@contextlib.contextmanager
def served(app: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, ENV_LISTEN: f"127.0.0.1:{port}"}
    argv = [sys.executable, "-m", "gym.server.serve", str(app)]
    process = subprocess.Popen(argv, cwd=app.parent, env=env)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(process.pid, {0})
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


async def measure(
    process: subprocess.Popen[bytes], port: int, request: bytes, count: int, at_once: int, rate: float = 0
) -> Round:
    loop = asyncio.get_running_loop()
    left, seconds = [count], list[float]()
    cpu, began = cpu_seconds(process.pid), time.perf_counter()
    ends = []
    every = at_once / rate if rate else 0.0
    for number in range(at_once):
        done: asyncio.Future[None] = loop.create_future()
        ends.append(done)
        first = began + 0.1 + (number / rate if rate else 0.0)  # one connection after another, evenly
        make = partial(Client, request, left, seconds, done, every, first)
        await loop.create_connection(make, "127.0.0.1", port)
    await asyncio.gather(*ends)
    took, spent = time.perf_counter() - began, cpu_seconds(process.pid) - cpu
    seconds.sort()
    return Round(count / took, count / spent, 1e3 * seconds[len(seconds) // 2], 1e3 * seconds[int(len(seconds) * 0.99)])


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def request_of(server: str, case: str, size: int) -> bytes:
    cases = [one for one in load_cases(RESOURCES / server / CASES) if one.name == case or (not case and one.oracle)]
    body = dict(cases[0].request)
    body["padding"] = ""
    body["padding"] = "x" * max(0, size - len(json.dumps(body)))
    text = json.dumps(body).encode()
    return (
        b"POST /verify HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        % len(text)
        + text
    )


async def wait_until_up(port: int) -> None:
    for _ in range(300):
        with contextlib.suppress(OSError):
            (await asyncio.open_connection("127.0.0.1", port))[1].close()
            return
        await asyncio.sleep(0.05)
    raise SystemExit("the server did not start")


async def best_of(app: Path, request: bytes, options: argparse.Namespace) -> Round:
    with contextlib.closing(listen("127.0.0.1:0")) as free:
        port = free.getsockname()[1]
    with served(app, port) as process:
        await wait_until_up(port)
        await measure(process, port, request, 1000, options.in_flight)
        rounds = [
            await measure(process, port, request, options.requests, options.in_flight, options.rate)
            for _ in range(options.rounds)
        ]
    return Round(*(pick(one) for pick, one in zip((max, max, min, min), zip(*rounds, strict=True), strict=True)))


async def main(options: argparse.Namespace) -> None:
    request = request_of(options.server, options.case, options.bytes)
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {1})
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "app.py"
        bare.write_text(BARE % (len(request), len(request)))
        base = await best_of(bare, request, options)
        measured = await best_of(RESOURCES / options.server / "app.py", request, options)
    offered = f"{options.rate:,.0f}/s offered over {options.in_flight} connections" if options.rate else ""
    load = offered or f"{options.in_flight} in flight"
    print(f"{len(request)} bytes, {load}, best of {options.rounds} rounds of {options.requests}")
    for name, one in (("bare ASGI app", base), (f"{options.server} /verify", measured)):
        rates = f"{one.per_second:8,.0f}/s  {one.per_cpu_second:8,.0f}/CPU s"
        print(f"{name:24} {rates}  p50 {one.p50_ms:6.2f} ms  p99 {one.p99_ms:6.2f} ms")
    print(f"a verify costs {base.per_cpu_second / measured.per_cpu_second:.2f} of a bare request")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="mcqa")
    parser.add_argument("--case", default="", help="its name; else the first oracle's")
    parser.add_argument("--bytes", type=int, default=4096)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0, help="requests a second, however long replies take")
    parser.add_argument("--rounds", type=int, default=3)
    uvloop.run(main(parser.parse_args()))

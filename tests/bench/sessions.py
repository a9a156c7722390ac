"""Open sessions of workplace_assistant: what 10,000 of them weigh, and what opening one costs.

    .venv/bin/python tests/bench/sessions.py [--sessions 10000] [--concurrency 1]

The server runs as it does in a stack: a process of its own on a real socket. Half of the sessions change a table, so
that copies are paid for. The baseline of the same run is an office whose five tables are copied for every session.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from gym.http.pool import HttpClient
from tests.bench.served_process import cpu_seconds, rss_mib, served

FOLDER = Path(__file__).parents[2] / "servers" / "resources" / "workplace_assistant"
COPIES = 50  # of the baseline; its weight grows in a straight line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--concurrency", type=int, default=1)
    options = parser.parse_args()
    with served(FOLDER, {}) as (pid, url):
        asyncio.run(measure(pid, url, options.sessions, options.concurrency))
    return 0


async def measure(pid: int, url: str, sessions: int, concurrency: int) -> None:
    http = HttpClient()
    row = (FOLDER / "data" / "example.jsonl").read_text("utf-8").splitlines()[0].encode()
    await open_sessions(http, url, row, 200, concurrency)  # warm
    before, cpu_before = rss_mib(pid), cpu_seconds(pid)
    latencies, cookies = await open_sessions(http, url, row, sessions, concurrency)
    cpu = cpu_seconds(pid) - cpu_before
    opened = rss_mib(pid)
    await change(http, url, cookies[::2], concurrency)
    changed = rss_mib(pid)
    health = json.loads((await http.request("GET", f"{url}/healthz", timeout=10)).body)
    await http.aclose()
    latencies.sort()
    p50, p99 = (latencies[int(len(latencies) * share)] * 1000 for share in (0.5, 0.99))
    copied_ms, copied_mib = baseline()
    print(f"{health['sessions']} sessions are open; a row of {len(row) / 1024:.1f} KB, {concurrency} at a time")
    print(f"seed_session: p50 {p50:.3f} ms, p99 {p99:.3f} ms; CPU of the server {cpu / sessions * 1000:.3f} ms each")
    print(f"resident: {before:.0f} MiB before, {opened:.0f} with all open, {changed:.0f} when half have sent an email")
    each = (changed - before) / sessions
    print(
        f"a session: {each * 1024:.1f} KiB; with tables of its own {copied_mib * 1024:.0f} KiB and {copied_ms:.2f} ms"
    )
    print(
        f"memory: {copied_mib / each:.0f} times less; copying alone takes {copied_ms / p50:.1f} times as long as a seed"
    )


async def open_sessions(
    http: HttpClient, url: str, row: bytes, count: int, concurrency: int
) -> tuple[list[float], list[bytes]]:
    latencies: list[float] = []
    cookies: list[bytes] = []
    left = iter(range(count))

    async def work() -> None:
        for _ in left:
            begun = time.perf_counter()
            reply = await http.request("POST", f"{url}/seed_session", body=row, timeout=30)
            latencies.append(time.perf_counter() - begun)
            cookies.append((reply.header(b"set-cookie") or b"").partition(b";")[0])

    await at_once(work, concurrency)
    return latencies, cookies


async def change(http: HttpClient, url: str, cookies: list[bytes], concurrency: int) -> None:
    body = json.dumps({"recipient": "a@b.example", "subject": "S", "body": "B"}).encode()
    left = iter(cookies)

    async def work() -> None:
        for cookie in left:
            headers = [(b"cookie", cookie)]
            reply = await http.request("POST", f"{url}/email_send_email", body=body, headers=headers, timeout=30)
            assert b"successfully" in reply.body, reply

    await at_once(work, concurrency)


async def at_once(work: Callable[[], Coroutine[Any, Any, None]], count: int) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(work())


def baseline() -> tuple[float, float]:
    """Milliseconds and MiB of one session whose tables are copied row by row."""
    sys.path.insert(0, str(FOLDER))
    seed = importlib.import_module("office.desk").load_seed(FOLDER / "data" / "tables")
    rows = [table.rows for table in (seed.emails, seed.events, seed.tasks, seed.customers)]
    times, kept, before = [], [], rss_mib(os.getpid())
    for _ in range(COPIES):
        begun = time.perf_counter()
        kept.append([[copy.copy(row) for row in table] for table in (*rows, seed.visits)])
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1000, (rss_mib(os.getpid()) - before) / COPIES


if __name__ == "__main__":
    sys.exit(main())

"""A server as a process of its own, and what it uses: for the benchmarks beside this file."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from gym.http.pool import HttpClient
from gym.labels import ENV_LISTEN

READY_SECONDS = 60.0


@contextmanager
def served(folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """The process id and the URL of the `app.py` in a folder, once it is healthy."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    variables = {**os.environ, ENV_LISTEN: address, **environment}
    process = subprocess.Popen([sys.executable, "-m", "gym.server.serve", "app.py"], cwd=folder, env=variables)
    try:
        asyncio.run(wait_until_ready(f"http://{address}"))
        yield process.pid, f"http://{address}"
    finally:
        process.terminate()
        process.wait(30)


async def wait_until_ready(url: str) -> None:
    http = HttpClient()
    ends = time.monotonic() + READY_SECONDS
    while True:
        try:
            if (await http.request("GET", f"{url}/healthz", timeout=5)).status == 200:
                break
        except OSError:
            if time.monotonic() > ends:
                raise
        await asyncio.sleep(0.05)
    await http.aclose()


def rss_mib(pid: int) -> float:
    output = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(output.stdout) / 1024


def cpu_seconds(pid: int) -> float:
    """Of a process on Linux, by its own clock: `/proc` counts in hundredths of a second. 0 elsewhere."""
    return time.clock_gettime((~pid << 3) | 2) if sys.platform == "linux" else 0.0

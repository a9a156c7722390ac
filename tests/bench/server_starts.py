"""What a server of the local runtime costs to start, what memory is its own, and how long it takes to stop: by itself,
and as a fork.

python -m tests.bench.server_starts

The baseline is the start by itself, in the same run; the fork parent's own start is counted beside it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

from gym import labels
from gym.runtime.identity import Identity
from gym.runtime.local.child_process import LISTENER_FD, Process, ProcessSpec, Reaper, send_signal, start_process
from gym.runtime.local.fork_parents import ForkParents
from gym.runtime.local.listeners import address_of, listen_on_loopback
from tests.bench.served_process import cpu_seconds, wait_until_ready

SERVERS = 8
APP = Path(__file__).parents[2] / "servers" / "resources" / "mcqa"
CONFIG = '{"mcqa": {"resources_servers": {"mcqa": {"entrypoint": "app.py", "domain": "knowledge"}}}}'


def spec_of(folder: Path, name: str) -> ProcessSpec:
    variables = {
        **os.environ,
        labels.ENV_CONFIG: CONFIG,
        labels.ENV_INSTANCE: "mcqa",
        labels.ENV_REPLICA: name,
        labels.ENV_DISCOVERY: str(folder / "discovery.json"),
        labels.ENV_LISTEN: f"fd:{LISTENER_FD}",
    }
    argv = (sys.executable, "-P", "-m", "gym.server.serve", "app.py")
    return ProcessSpec(name, argv, variables, APP, folder / f"{name}.log", 1.0)


def own_mib(pid: int) -> float:
    """Pages that no other process has."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(one.split()[1]) for one in lines if one.startswith("Private")) / 1024


async def measure(folder: Path) -> tuple[list[tuple[float, float]], list[tuple[float, float]], float, list[float]]:
    """CPU seconds until it serves and own MiB, of those that start by themselves and of forks; CPU of the parent; the
    seconds from SIGTERM to the end."""
    reaper = Reaper(asyncio.get_running_loop())
    forks = ForkParents(reaper, folder)
    processes: list[Process] = []
    alone: list[tuple[float, float]] = []
    forked: list[tuple[float, float]] = []
    stops: list[float] = []

    async def follow(process: Process, url: str) -> tuple[float, float]:
        processes.append(process)
        await asyncio.to_thread(lambda: asyncio.run(wait_until_ready(url)))
        return cpu_seconds(process.pid), own_mib(process.pid)

    def remember(_: Identity) -> None:
        """No stack: these end with this command."""

    try:
        for number in range(SERVERS):
            spec = spec_of(folder, f"server-{number}")
            with listen_on_loopback() as listener:
                process = await forks.start(spec, listener, remember, tied=True)
                host, port = address_of(listener)
                found = process or start_process(spec, listener, remember)
            (forked if process else alone).append(await follow(found, f"http://{host}:{port}"))
        for number in range(SERVERS - 1):
            spec = spec_of(folder, f"alone-{number}")
            with listen_on_loopback() as listener:
                host, port = address_of(listener)
                started = start_process(spec, listener, remember)
            alone.append(await follow(started, f"http://{host}:{port}"))
        parent = int(Path(f"/proc/{processes[1].pid}/stat").read_text().rpartition(")")[2].split()[1])
        return alone, forked, cpu_seconds(parent), stops
    finally:
        for one in processes:
            began = time.perf_counter()
            send_signal(one, signal.SIGTERM)
            await reaper.exit_of(one)
            stops.append(time.perf_counter() - began)
        await forks.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        alone, forked, parent, stops = asyncio.run(measure(Path(folder)))
    (cpu, memory), (cpu_forked, memory_forked) = (
        [statistics.median(values) for values in zip(*found, strict=True)] for found in (alone, forked)
    )
    print(f"by itself: {cpu * 1000:.0f} ms CPU until it serves, {memory:.1f} MiB of its own")
    print(
        f"as a fork: {cpu_forked * 1000:.0f} ms CPU, {memory_forked:.1f} MiB of its own; the parent {parent:.2f} s once"
    )
    print(f"from SIGTERM to its end, idle: {statistics.median(stops) * 1000:.0f} ms")
    print(f"ratio: {cpu_forked / cpu:.2f} of the CPU, {memory_forked / memory:.2f} of the memory")


if __name__ == "__main__":
    main()

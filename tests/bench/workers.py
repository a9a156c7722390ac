"""What a call of gym.server.workers costs beside the work itself, and what a killed one costs.

    .venv/bin/python tests/bench/workers.py [--calls 5000] [--kills 50]

The baseline is the same function in a thread of this process; nothing could kill it there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from gym.server.workers import Workers, WorkerTimeout

CODE = """
def echo(text): return len(text)
def spin():
    while True: pass
"""
TEXT = "x" * 4096


async def time_calls(call: Callable[[], Awaitable[object]], count: int) -> float:
    """Microseconds a call, the best of three rounds."""
    rounds = []
    for _ in range(3):
        began = time.perf_counter()
        for _ in range(count):
            await call()
        rounds.append((time.perf_counter() - began) / count * 1e6)
    return min(rounds)


async def main(calls: int, kills: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bench_graders.py").write_text(CODE)
        workers = Workers("bench_graders", count=1, folder=Path(folder))
        await workers.call("echo", TEXT)
        thread = await time_calls(lambda: asyncio.to_thread(len, TEXT), calls)
        worker = await time_calls(lambda: workers.call("echo", TEXT), calls)
        print(f"a call of 4 KB: {worker:.0f} us; in a thread {thread:.0f} us; ratio {worker / thread:.2f}")
        began = time.perf_counter()
        for _ in range(kills):
            with contextlib.suppress(WorkerTimeout):
                await workers.call("spin", timeout=0.02)
            await workers.call("echo", TEXT)
        each = (time.perf_counter() - began) / kills * 1e3
        print(f"a call killed after 20 ms of CPU, and the next one: {each:.1f} ms")
        await workers.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=50)
    options = parser.parse_args()
    uvloop.run(main(options.calls, options.kills))

"""What a queue and a state in Redis cost: CPU for one rollout with them, and a ratio to one without, of the same run.

.venv/bin/python tests/bench/redis_costs.py [--repeats 400] [--calls 2000]
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gym.http.pool import HttpClient
from gym.server import ResourcesServer, Row, VerifyRequest, tool
from gym.server.testing import running
from tests.support.own_redis import PrivateRedis

GYM = Path(sys.executable).with_name("gym")
ROW = b'{"responses_create_params": {"input": "x"}}'
VERIFY = b'{"responses_create_params": {"input": "x"}, "response": {"output": []}}'


@dataclass
class Count:
    number: int = 0


class Counter(ResourcesServer[Count]):
    async def seed(self, row: Row) -> Count:
        return Count()

    @tool
    async def add(self, amount: int, state: Count) -> int:
        """Adds."""
        state.number += amount
        return state.number

    async def verify(self, rollout: VerifyRequest, state: Count) -> float:
        return float(state.number)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--calls", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        redis = PrivateRedis(Path(folder))
        try:
            measure_queue(Path(folder), redis, options.repeats)
            asyncio.run(measure_state(redis, options.calls))
        finally:
            redis.close()
    return 0


def measure_queue(folder: Path, redis: PrivateRedis, repeats: int) -> None:
    """The collector's process alone, its start included in both."""
    run(folder, "up", "mcqa", "--model", "scripted", "--runtime", "local", "--port", "0")
    try:
        costs = {}
        for name, more in (("without", ()), ("with", ("--queue", redis.url))):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run(folder, "rollouts", "mcqa", "-o", f"{name}.jsonl", "--repeats", str(repeats), *more)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            costs[name] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        count = repeats * 5
        for name, cost in costs.items():
            print(f"collector {name} a queue: {cost / count * 1000:.3f} ms CPU a rollout, {count} rollouts")
        print(f"ratio with a queue to without: {costs['with'] / costs['without']:.2f}")
    finally:
        run(folder, "down")


async def measure_state(redis: PrivateRedis, calls: int) -> None:
    """Sessions of a seed, three calls of a tool and a verify; the client's work is in both."""
    costs = {}
    for name, fields in (("memory", {}), ("Redis", {"state": redis.url})):
        http = HttpClient()
        async with running(Counter.app(fields)) as url:
            began = time.process_time()
            for _ in range(calls // 5):
                reply = await http.request("POST", f"{url}/seed_session", body=ROW, headers=[], timeout=30)
                cookie = [(b"cookie", (reply.header(b"set-cookie") or b"").partition(b";")[0])]
                for _ in range(3):
                    await http.request("POST", f"{url}/add", body=b'{"amount": 1}', headers=cookie, timeout=30)
                await http.request("POST", f"{url}/verify", body=VERIFY, headers=cookie, timeout=30)
            costs[name] = (time.process_time() - began) / (calls // 5)
        await http.aclose()
    for name, cost in costs.items():
        print(f"session with its state in {name}: {cost * 1000:.2f} ms CPU, client and server together")
    print(f"ratio of Redis to memory: {costs['Redis'] / costs['memory']:.2f}")


def run(folder: Path, *words: str) -> None:
    subprocess.run([str(GYM), *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    raise SystemExit(main())

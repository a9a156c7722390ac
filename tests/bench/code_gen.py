"""Short programs a second through the pool, and whether two runs agree: --programs 10000 --provider docker --places 4.

The baseline of the same run is a new `python3 -I` by the same broker for each program.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from gym.runtime.trial_broker import TrialAccess, trial_broker
from gym.sandbox.broker_client import Sandboxes
from gym.sandbox.short_programs import ProgramLimits, Programs

IMAGE = "python:3.13-slim"
CODES = (
    "print(sum(map(int, input().split())))",
    "import sys\nprint(*sorted(map(int, sys.stdin.read().split())))",
    "print(max(map(int, input().split())) // 0)",
    "a, b = map(int, input().split())\nprint(a * b % 7, len({str(one) for one in range(a)}))",
)


async def verdicts(pool: Programs, count: int) -> tuple[list[tuple[str, str]], float]:
    began = time.perf_counter()

    async def one(at: int) -> tuple[str, str]:
        async with pool.for_rollout() as programs:
            (outcome,) = await programs.run(
                CODES[at % len(CODES)], [f"{at % 97} {at % 89}\n"], bounds=ProgramLimits(cpu=5)
            )
        return outcome.end, outcome.stdout

    found = await asyncio.gather(*(one(at) for at in range(count)))
    return found, time.perf_counter() - began


async def baseline(sandboxes: Sandboxes, count: int, places: int) -> float:
    created = [await sandboxes.create({"image": IMAGE}) for _ in range(places)]
    began = time.perf_counter()

    async def lane(at: int) -> None:
        for number in range(at, count, places):
            await created[at].exec(["python3", "-I", "-c", CODES[number % len(CODES)]], stdin=f"{number} 2\n")

    await asyncio.gather(*(lane(at) for at in range(places)))
    return time.perf_counter() - began


async def measure(access: TrialAccess, count: int, places: int) -> None:
    async with Sandboxes(*access) as sandboxes:
        pool = Programs(sandboxes, image=IMAGE, max_sandboxes=places)
        await verdicts(pool, places)
        first, seconds = await verdicts(pool, count)
        second, again = await verdicts(pool, count)
        await pool.aclose()
        plain = await baseline(sandboxes, min(count, 200), places) / min(count, 200)
        strict = Programs(sandboxes, image=IMAGE, max_sandboxes=places, fresh=True)
        alone = min(count, 40)
        _, fresh = await verdicts(strict, alone)
        print(f"a sandbox for each rollout: {alone / fresh:.1f} programs/s")  # noqa: T201
    differ = sum(one != other for one, other in zip(first, second, strict=True))
    load = os.getloadavg()[0]
    print(f"pool: {count / seconds:.0f} and {count / again:.0f} programs/s; {differ} of {count} verdicts differ")  # noqa: T201
    print(
        f"python3 -I by exec: {1 / plain:.0f} programs/s; the pool is {plain * count / seconds:.1f}x; load {load:.1f}"
    )  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--provider", default="docker")
    parser.add_argument("--places", type=int, default=4)
    asked = parser.parse_args()
    with trial_broker({"images": ["*"], "warm": 0}, asked.provider) as access:
        asyncio.run(measure(access, asked.programs, asked.places))


if __name__ == "__main__":
    main()

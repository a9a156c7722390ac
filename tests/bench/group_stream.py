"""What groups cost above plain collecting: python tests/bench/group_stream.py [--groups 10000] [--size 8].

All ways collect as many rollouts of the same rows from the same agent, which answers at once. Three tenths of the
groups have equal rewards: they are dropped and replaced, or kept for comparison. Each way runs in a process of its own,
in turns, and the cheapest run of each counts: what else goes on shows in the others.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import uvloop

sys.path.insert(0, str(Path(__file__).parents[2]))

from gym.collect import AttemptOptions, collect
from gym.trainers import GroupOptions, GroupStream
from tests.support.agents import fake_agent

TEXT = "The quick brown fox jumps over the lazy dog. " * 20
DROPPED = 0.3
TARGET_MS = 0.2
CONCURRENCY = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=10_000, help="that are delivered")
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--child", nargs=4, metavar=("WAY", "URL", "GROUPS", "SIZE"))
    arguments = parser.parse_args()
    if arguments.child:
        way, url, groups, size = arguments.child
        print(orjson.dumps(run_way(way, url, int(groups), int(size))).decode())
        return
    with fake_agent() as agent:
        best: dict[str, dict[str, float]] = {}
        for _ in range(arguments.turns):
            for way in ("plain", "kept", "groups"):
                found = run_child(way, agent.url, arguments.groups, arguments.size)
                print(f"  {way}: {found}", file=sys.stderr)
                best[way] = min(best.get(way, found), found, key=lambda one: one["cpu_ms"])
        early = run_child("groups", agent.url, max(arguments.groups // 10, 10), arguments.size)
    for way in ("groups", "kept"):
        show_cost(best["plain"], best[way])
    show_memory(best["plain"], best["groups"], early)


def show_cost(plain: dict[str, float], groups: dict[str, float]) -> None:
    above = groups["cpu_ms"] - plain["cpu_ms"]
    print(
        f"{groups['delivered']:,.0f} groups delivered, {groups['dropped']:,.0f} dropped, {groups['rollouts']:,.0f} "
        f"rollouts: {groups['cpu_ms']:.3f} ms CPU a rollout, plain collecting {plain['cpu_ms']:.3f} "
        f"(ratio {groups['cpu_ms'] / plain['cpu_ms']:.2f}), {above:+.3f} above it; target {TARGET_MS}"
    )


def show_memory(plain: dict[str, float], groups: dict[str, float], early: dict[str, float]) -> None:
    print(
        f"memory: {groups['rss_begin']:.1f} MB after a tenth, {groups['rss_end']:.1f} MB at the end, peak "
        f"{groups['peak']:.1f} MB (of a run of a tenth of the groups {early['peak']:.1f} MB; plain {plain['peak']:.1f})"
    )


def run_way(way: str, url: str, groups: int, size: int) -> dict[str, float]:
    work = {"plain": collect_plain, "groups": collect_groups, "kept": collect_kept}[way]
    began, cpu = time.perf_counter(), time.process_time()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(work(url, groups, size))
    used, wall = time.process_time() - cpu, time.perf_counter() - began
    return {**found, "cpu_ms": 1e3 * used / found["rollouts"], "wall": wall, "peak": peak_rss()}


async def collect_plain(url: str, groups: int, size: int) -> dict[str, float]:
    """As many rollouts as the groups take, dropped ones included."""
    count, rows = 0, round(groups / (1 - DROPPED))
    options = AttemptOptions(concurrency=CONCURRENCY)
    async for rollout in collect(url, make_rows(rows), repeats=size, options=options):
        assert rollout.reward is not None
        count += 1
    return {"rollouts": count}


async def collect_groups(url: str, groups: int, size: int, *, drop: bool = True) -> dict[str, float]:
    options = GroupOptions(size=size, limit=groups, drop_equal=drop, concurrency=CONCURRENCY)
    delivered, begin = 0, 0.0
    async with GroupStream(url, make_rows(10 * groups), options) as stream:
        async for group in stream:
            assert group.complete
            assert not drop or len(set(group.rewards)) > 1
            delivered += 1
            if delivered == groups // 10:
                begin = rss()
        dropped = stream.stats().dropped
    rollouts = (delivered + dropped) * size
    return {"rollouts": rollouts, "delivered": delivered, "dropped": dropped, "rss_begin": begin, "rss_end": rss()}


async def collect_kept(url: str, groups: int, size: int) -> dict[str, float]:
    """The same rows, and every group delivered: dropped ones are cheaper, as their lines are not written."""
    return await collect_groups(url, round(groups / (1 - DROPPED)), size, drop=False)


def make_rows(count: int) -> Iterator[dict[str, Any]]:
    """Rows whose rewards the agent makes from the repeat, and of every ten three whose rewards are equal."""
    for number in range(count):
        fake = {} if number % 10 < round(10 * DROPPED) else {"odd": True}
        yield {"responses_create_params": {"input": TEXT}, "id": number, "fake": fake}


def run_child(way: str, url: str, groups: int, size: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", way, url, str(groups), str(size)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, float] = orjson.loads(done.stdout)
    return found


def rss() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def peak_rss() -> float:
    """MB, of this program alone: what `getrusage` says begins with the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


if __name__ == "__main__":
    main()

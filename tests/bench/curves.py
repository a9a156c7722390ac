"""Scaling curves: rollouts through real servers, and the CPU of each hop against one thing that grows.

    nice .venv/bin/python -m tests.bench.curves [--only concurrency|replicas|rows|steps|ids] [--points 1,64,1000]

The model is `openai` before an endpoint that is not counted. Each curve has the line that it should follow, and `off`
says by how much a point leaves it: its CPU over what the line gives. Where bytes grow, what the first point costs is
taken as fixed, and the second says what a MB costs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from tests.bench.stack_cost import Cost, Stack, load, stack

MAX_BYTES = 60e6  # of rows and replies in one run
SIZES = {
    "concurrency": (1, 8, 64, 512, 2000, 10_000),
    "replicas": (1, 2, 4, 8, 16),
    "rows": (1, 10, 100, 1000, 5000, 20_000),
    "steps": (1, 10, 50, 100, 200),
    "ids": (1, 8, 32, 128),
}


class Point(NamedTuple):
    size: int
    cost: Cost
    megabytes: float = 0.0  # that one rollout moves, of what grows


class Curve(NamedTuple):
    label: str
    line: str
    measure: Callable[[int], Point]
    per: Callable[[Point], float]  # what CPU a rollout is divided by, so that the line is flat
    has_fixed: bool = False  # the first point is the part that does not grow


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(CURVES), default="")
    parser.add_argument("--points", default="", help="other sizes, separated by commas")
    options = parser.parse_args()
    for name in [options.only] if options.only else CURVES:
        given = tuple(int(one) for one in options.points.split(",") if one)
        show(CURVES[name], given or SIZES[name])


def show(curve: Curve, sizes: tuple[int, ...]) -> None:
    print(f"\n{curve.label}. It should follow: {curve.line}. {load()}\n")
    hops = "CPU ms: model | agent | resources | collector | all"
    print(f"| size | rollouts/s | {hops} | off | collector MB | moved MB | failed |")
    print("|---" * 11 + "|")
    fixed = first = 0.0
    for number, size in enumerate(sizes):
        point = curve.measure(size)
        cost = point.cost
        level = (cost.total - fixed) / curve.per(point)
        if curve.has_fixed and not number:
            fixed, level = cost.total, 0.0
        first = first or level
        parts = " | ".join(f"{one:.2f}" for one in (*cost[:4], cost.total))
        memory = f"{cost.collector_kib / 1024:.0f} | {point.megabytes:.2f}"
        off = f"{level / first:.2f}" if first else ""
        print(f"| {size:,} | {cost.rate:.1f} | {parts} | {off} | {memory} | {cost.failed} |", flush=True)
    print(load())


def concurrency(count: int) -> Point:
    with stack("mcqa") as one:
        one.collect(20)
        return Point(count, one.collect(max(200, count // 5), concurrency=count))


def replicas(count: int) -> Point:
    words = (f"mcqa.resources_servers.mcqa.replicas={count}", f"{AGENT}.replicas={count}")
    with stack("mcqa", *words) as one:
        one.collect(20, concurrency=64)
        return Point(count, one.collect(200, concurrency=64))


def rows(kilobytes: int) -> Point:
    """The row goes to the agent, to the seed, to the model and to verify, and comes back twice."""
    with stack("mcqa") as one:
        path = write_row(one.folder, kilobytes * 1000)
        repeats = max(4, min(200, int(MAX_BYTES / kilobytes / 1000)))
        cost = one.collect(repeats, concurrency=2, rows=path, per_row=1, agent="mcqa_simple_agent")
        return Point(kilobytes, cost, 6 * kilobytes / 1000)


def steps(count: int) -> Point:
    """Each step sends all that was said before: 0.3 KB more each time, so that the bytes grow by the square."""
    words = ("simple_weather_simple_agent.responses_api_agents.simple_agent.max_steps=300",)
    with stack("simple_weather", *words, steps=count) as one:
        one.collect(1)
        cost = one.collect(max(2, 200 // count), concurrency=4)
        return Point(count, cost, sent_megabytes(one))


def ids(thousands: int) -> Point:
    with stack("mcqa", ids=thousands * 1000) as one:
        one.collect(1)
        cost = one.collect(max(2, min(100, int(MAX_BYTES / thousands / 33_000 / 5))), concurrency=2)
        return Point(thousands, cost, 5 * thousands * 0.033)


def write_row(folder: Path, size: int) -> Path:
    text = ('The quick brown fox jumps over the lazy dog, and says "again".\n' * (size // 63 + 1))[:size]
    asked = [{"role": "user", "content": text}]
    row = {"responses_create_params": {"input": asked}, "expected_answer": "A", "options": [{"A": "a"}, {"B": "b"}]}
    path = folder / "rows.jsonl"
    path.write_bytes(orjson.dumps(row) + b"\n")
    return path


def sent_megabytes(one: Stack) -> float:
    """What the agent sent to the model in one rollout."""
    with (one.folder / "out.jsonl").open("rb") as lines:
        row = orjson.loads(next(iter(lines)))
    head = len(orjson.dumps(row["responses_create_params"]))
    return sum(_requests(row["response"]["output"], head)) / 1e6


def _requests(output: list[dict[str, object]], head: int) -> Iterator[int]:
    yield head
    for item in output:
        head += len(orjson.dumps(item)) + 1
        if item["type"] == "function_call_output":
            yield head


AGENT = "mcqa_simple_agent.responses_api_agents.simple_agent"
FLAT, PER_MB = "CPU a rollout stays the same", "a part that is fixed, and one for each MB"
CURVES = {
    "concurrency": Curve("In flight", FLAT, concurrency, lambda _: 1.0),
    "replicas": Curve("Replicas of agent and verifier", FLAT, replicas, lambda _: 1.0),
    "rows": Curve("KB a row", PER_MB, rows, lambda one: one.megabytes, True),
    "steps": Curve("Steps", "CPU a step stays the same", steps, lambda one: one.size + 1.0),
    "ids": Curve("Thousand ids a turn", PER_MB, ids, lambda one: one.megabytes, True),
}

if __name__ == "__main__":
    main()

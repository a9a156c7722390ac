"""Keeps rollouts in flight for hours, and says how fast each process of the stack grows.

    PYTHONPATH=. .venv/bin/python tests/bench/soak.py [--hours 2] [--in-flight 200] [--latency 1.0] [--seconds 5]

A local stack of two agents and two resources servers, one with sessions. Every few seconds: memory (RSS) and
descriptors of each process, bytes of its logs, sessions open. The slope is a straight line through the last three
quarters, in MB an hour, with its 95 % interval; neighbouring samples depend on one another, so it is made of the means
of 20 blocks.
Prints the table that docs/reliability.md shows, and exits with 1 where a slope is above --allowed for sure.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import os
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from urllib.parse import urlsplit

from gym.chaos.process_faults import LocalTarget
from gym.chaos.process_usage import measure_usage
from gym.wire.route_files import read_discovery
from tests.bench.crash import LATENCY, Stack, running_stack

BLOCKS = 20
T_95 = 2.101  # Student's t for BLOCKS - 2 degrees of freedom
ROWS = 20_000
MB = 1 << 20


@dataclass
class Series:
    """What one process had, at each look."""

    memory: list[tuple[float, float]] = field(default_factory=list)  # (hours, MB)
    descriptors: list[int] = field(default_factory=list)
    logs: list[int] = field(default_factory=list)
    sessions: list[int] = field(default_factory=list)


def fit_slope(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """(slope, half of its 95 % interval), of the means of BLOCKS neighbouring blocks."""
    size = len(points) // BLOCKS
    if size == 0:
        return math.nan, math.nan
    kept = points[len(points) - size * BLOCKS :]
    blocks = [kept[at : at + size] for at in range(0, len(kept), size)]
    xs, ys = ([fmean(point[axis] for point in block) for block in blocks] for axis in (0, 1))
    middle, height = fmean(xs), fmean(ys)
    spread = sum((x - middle) ** 2 for x in xs)
    slope = sum((x - middle) * (y - height) for x, y in zip(xs, ys, strict=True)) / spread
    rest = sum((y - height - slope * (x - middle)) ** 2 for x, y in zip(xs, ys, strict=True))
    return slope, T_95 * math.sqrt(rest / (BLOCKS - 2) / spread)


def watch(stack: Stack, seconds: float, step: float, in_flight: int) -> tuple[dict[str, Series], int, int]:
    """Collections one after another; what was seen, how many rollouts there were, and how many failed."""
    target, found = LocalTarget(stack.home, random.Random(1)), defaultdict[str, Series](Series)
    began, rounds, rollouts, failures = time.monotonic(), 0, 0, 0
    while time.monotonic() - began < seconds:
        output = stack.folder / f"soak-{rounds}.jsonl"
        rounds += 1
        words = ("rollouts", str(stack.rows), "-o", str(output), "--concurrency", str(in_flight), "--drain", "30")
        process = stack.gym(*words)
        while process.poll() is None:
            look(stack, target, (time.monotonic() - began) / 3600, found)
            time.sleep(step)
            if time.monotonic() - began > seconds:
                process.terminate()
                break
        process.wait()
        rollouts += count_lines(output)
        failures += count_lines(output.with_name(f"{output.stem}_failures.jsonl"))
        for path in stack.folder.glob(f"{output.stem}*"):
            path.unlink()
    return dict(found), rollouts, failures


def look(stack: Stack, target: LocalTarget, hours: float, found: dict[str, Series]) -> None:
    sessions = read_sessions(stack.home / "discovery.json")
    for name, usage in measure_usage(target.processes()).items():
        one = found[name]
        one.memory.append((hours, usage.memory / MB))
        one.descriptors.append(usage.descriptors or 0)
        logs = [*(stack.home / "logs").glob(f"{name}.log*")]
        logs += stack.home.glob("access.log*") if name == "router" else []
        one.logs.append(sum(path.stat().st_size for path in logs))
        if name in sessions:
            one.sessions.append(sessions[name])


def read_sessions(discovery: Path) -> dict[str, int]:
    """Of every resources server that keeps some, by its own word."""
    document = read_discovery(discovery)
    views = [view for view in document.instances.values() if view.type == "resources_servers"] if document else []
    found = {}
    for one in (replica for view in views for replica in view.replicas):
        address = urlsplit(one.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=10)
        try:
            connection.request("GET", "/healthz")
            said = json.loads(connection.getresponse().read())
        except (OSError, ValueError, http.client.HTTPException):
            continue
        finally:
            connection.close()
        if said.get("stateful"):
            found[one.id] = int(said["sessions"])
    return found


def count_lines(path: Path) -> int:
    if not path.exists():
        return 0
    with path.open("rb") as lines:
        return sum(1 for _ in lines)


def show(found: dict[str, Series], allowed: float) -> bool:
    """True where no process grows faster than that for sure."""
    print("\n| process | RSS at the end, MB | slope, MB/h | descriptors, begin and end | logs, KB | sessions open |")
    print("|---|---|---|---|---|---|")
    fine = True
    for name, one in sorted(found.items()):
        slope, half = fit_slope(one.memory[len(one.memory) // 4 :])
        fine = fine and not slope - half > allowed
        sessions = f"{min(one.sessions)} to {max(one.sessions)}" if one.sessions else ""
        early = max(one.descriptors[len(one.descriptors) // 4 :][:20])
        late = max(one.descriptors[-20:])
        print(
            f"| {name} | {one.memory[-1][1]:.0f} | {slope:+.1f} ± {half:.1f} | {early}, {late} | "
            f"{one.logs[-1] / 1024:.0f} | {sessions} |"
        )
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--in-flight", type=int, default=200)
    parser.add_argument("--latency", type=float, default=1.0, help="of a model call, in seconds")
    parser.add_argument("--seconds", type=float, default=5.0, help="between two looks")
    parser.add_argument("--allowed", type=float, default=5.0, help="MB an hour")
    options = parser.parse_args()
    latency = f"{LATENCY.partition('=')[0]}={options.latency:g}"
    with (
        tempfile.TemporaryDirectory() as folder,
        running_stack(Path(folder), ROWS, overrides=(latency,)) as stack,
    ):
        began, load = time.monotonic(), os.getloadavg()[0]
        found, rollouts, failures = watch(stack, options.hours * 3600, options.seconds, options.in_flight)
        print(
            f"{(time.monotonic() - began) / 60:.0f} minutes, {options.in_flight} in flight, {rollouts:,} rollouts, "
            f"{failures} failures, {os.cpu_count()} cores, load {load:.0f} to {os.getloadavg()[0]:.0f}"
        )
    return 0 if show(found, options.allowed) else 1


if __name__ == "__main__":
    raise SystemExit(main())

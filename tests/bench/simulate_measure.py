"""What `simulate.py` is fed with: CPU of each process for a rollout, of real stacks on this machine."""

from __future__ import annotations

import asyncio
import datetime
import json
import multiprocessing
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gym.sandbox.broker_client import Sandboxes
from gym.wire.discovery import Discovery, InstanceView, ReplicaView
from gym.wire.sandbox import Grant
from tests.bench.rollout_cpu import calibrate, cpu_seconds, run, stack_pids, words
from tests.support.sandbox_broker import TOKEN, broker_process

FILE = Path(__file__).with_name("simulate_measured.json")
NAMES = {"policy-model": "model", "mcqa-simple-agent": "agent", "mcqa": "resources"}
BATCHES, BATCH, ROUTED = 5, 1000, 3
CYCLES, AT_ONCE = 48, 16
IMAGE = "python:3.13-slim"


def measure() -> dict[str, Any]:
    with local_stack() as folder:
        times = _stack_times(folder)
    times |= _sandbox_times()
    return {
        "measured": datetime.date.today().isoformat(),
        "load": round(os.getloadavg()[0], 1),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "calibration_seconds": round(calibrate(), 3),
        "cpu_seconds": times,
        "discovery_seconds_a_replica": _discovery_time(),
    }


@contextmanager
def local_stack(replicas: int = 1, latency: float = 0.0) -> Iterator[Path]:
    names = ("mcqa", "mcqa_simple_agent", "policy_model")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        wait = f"policy_model.responses_api_models.scripted.latency_seconds={latency}"
        run(folder, "up", "mcqa", "--model", "scripted", "--runtime", "local", "--port", "0", wait)
        try:
            if replicas > 1:
                run(folder, "scale", *(f"{name}={replicas}" for name in names))
            collect(folder, "warm", 100)
            yield folder
        finally:
            run(folder, "down")


def collect(folder: Path, name: str, rollouts: int, *options: str, concurrency: int = 64) -> float:
    """CPU seconds of `gym rollouts`, its start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    output = ("-o", f"{name}.jsonl", "--fresh", "--repeats", str(rollouts // 5), "--concurrency", str(concurrency))
    run(folder, "rollouts", "mcqa", *output, *options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def latencies(output: Path) -> list[float]:
    return [json.loads(line)["_gym"]["seconds"] for line in output.open()]


def rate_of(output: Path) -> float:
    """A second, in the middle half of a run, by the times that its lines tell."""
    ends = sorted((one := json.loads(line)["_gym"])["started"] + one["seconds"] for line in output.open())
    low, high = len(ends) // 4, len(ends) * 3 // 4
    seconds: float = ends[high] - ends[low]
    return (high - low) / seconds


def available_cores(seconds: float = 1.0) -> float:
    """How much CPU a busy process for each core gets now, beside what else runs."""
    count = os.cpu_count() or 1
    with multiprocessing.get_context("spawn").Pool(count) as pool:
        pool.map(_spin, [0.1] * count)
        return sum(pool.map(_spin, [seconds] * count))


def _spin(seconds: float) -> float:
    ends, began = time.perf_counter() + seconds, time.process_time()
    while time.perf_counter() < ends:
        pass
    return (time.process_time() - began) / seconds


def _stack_times(folder: Path) -> dict[str, dict[str, float]]:
    collect(folder, "alone", 500, concurrency=1)
    alone = latencies(folder / "alone.jsonl")
    usual = sorted(alone)[: int(len(alone) * 0.99)]  # the last hundredth is what else the machine did
    spread = statistics.pstdev(usual) / statistics.fmean(usual)
    found: dict[str, list[float]] = {}
    pids = {_name(words(pid)): pid for pid in stack_pids(folder)}
    for number in range(BATCHES):
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        start = collect(folder, f"few{number}", 50)
        whole = collect(folder, f"many{number}", BATCH + 50)
        found.setdefault("collector", []).append((whole - start) / BATCH)
        for name, pid in pids.items():
            if name in NAMES.values():
                found.setdefault(name, []).append((cpu_seconds(pid) - before[name]) / (BATCH + 100))
    for number in range(ROUTED):
        start = cpu_seconds(pids["router"])
        collect(folder, f"few-routed{number}", 50, "--through-router")
        begun = cpu_seconds(pids["router"])
        collect(folder, f"routed{number}", 3 * BATCH + 50, "--through-router")
        whole = cpu_seconds(pids["router"]) - begun - (begun - start)
        found.setdefault("router", []).append(whole / (3 * BATCH))
    middle = {name: round(statistics.median(values), 7) for name, values in found.items()}
    return {name: {"mean": mean, "spread": round(spread, 2)} for name, mean in middle.items()}


def _name(shown: str) -> str:
    base = shown.rpartition("-")[0]
    return NAMES.get(base, "router" if "traefik" in shown else shown)


def _sandbox_times() -> dict[str, dict[str, float]]:
    """Of Docker: all cores of this machine are charged to the engine while it makes and removes sandboxes."""
    return asyncio.run(_make_sandboxes())


async def _make_sandboxes() -> dict[str, dict[str, float]]:
    grant = Grant(images=("*",), warm=0, max_sandboxes=1000)
    with tempfile.TemporaryDirectory() as folder, broker_process(Path(folder), "docker", grant=grant) as broker:
        assert broker.process is not None
        async with Sandboxes(broker.url, TOKEN) as sandboxes:
            gate, lasted = asyncio.Semaphore(AT_ONCE), list[float]()

            async def cycle() -> None:
                async with gate:
                    began = time.perf_counter()
                    async with await sandboxes.create({"image": IMAGE}) as one:
                        await one.exec(["true"])
                    lasted.append(time.perf_counter() - began)

            await cycle()
            lasted.clear()
            began, cpu = time.perf_counter(), cpu_seconds(broker.process.pid)
            async with asyncio.TaskGroup() as group:
                for _ in range(CYCLES):
                    group.create_task(cycle())
            wall, used = time.perf_counter() - began, cpu_seconds(broker.process.pid) - cpu
    spread = round(statistics.pstdev(lasted) / statistics.fmean(lasted), 2)
    engine = await asyncio.to_thread(available_cores) * wall / CYCLES
    return {
        "broker": {"mean": round(used / CYCLES, 5), "spread": spread},
        "engine": {"mean": round(engine, 4), "spread": spread},
    }


def _discovery_time() -> float:
    replicas = tuple(ReplicaView(id=f"mcqa-{one}", url=f"http://mcqa-{one}:8000") for one in range(10_000))
    view = InstanceView(type="resources_servers", implementation="mcqa", replicas=replicas)
    document = Discovery(stack="gym", instances={"mcqa": view})
    began = time.process_time()
    for _ in range(10):
        document.model_dump_json()
    return round((time.process_time() - began) / 100_000, 9)

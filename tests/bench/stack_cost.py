"""A stack on the local runtime and what rollouts through it cost, by process: for the benchmarks beside this file."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.bench.rollout_cpu import GYM, Meter, cpu_seconds, rss_kib, run, stack_pids, words

ENDPOINT = Path(__file__).with_name("large_endpoint.py")


class Cost(NamedTuple):
    """Of one rollout, in milliseconds of CPU. `others`: supervisor, router, console."""

    model: float
    agent: float
    resources: float
    collector: float
    others: float
    seconds: float  # on the clock, of the whole run
    rollouts: int
    collector_kib: int  # its memory at the peak
    failed: int  # after three attempts

    @property
    def total(self) -> float:
        return self.model + self.agent + self.resources + self.collector

    @property
    def rate(self) -> float:
        return self.rollouts / self.seconds


@dataclass
class Stack:
    name: str
    folder: Path

    def collect(
        self, repeats: int, *, concurrency: int = 8, rows: Path | None = None, per_row: int = 5, agent: str = ""
    ) -> Cost:
        """The collector is measured from its first row on: what its start costs is measured first, by a run of one."""
        start = self._collector(1, 1, rows, agent, limit=1)[0]
        pids = stack_pids(self.folder)
        before = {pid: cpu_seconds(pid) for pid in pids}
        collecting, seconds, peak = self._collector(repeats, concurrency, rows, agent)
        spent = {pid: cpu_seconds(pid) - before[pid] for pid in pids}
        done = sum(1 for _ in (self.folder / "out.jsonl").open("rb"))
        if not done:
            raise SystemExit("no rollout succeeded")
        parts = {"model": 0.0, "agent": 0.0, "resources": 0.0, "others": 0.0}
        for pid, cpu in spent.items():
            parts[self._part(words(pid))] += cpu * 1e3 / done
        collector = max(collecting - start, 0.0) * 1e3 / done
        failed = repeats * per_row - done
        return Cost(**parts, collector=collector, seconds=seconds, rollouts=done, collector_kib=peak, failed=failed)

    def _part(self, replica: str) -> str:
        instance = (replica.rpartition("-")[0] or replica).replace("-", "_")
        if instance.startswith("policy_model"):
            return "model"
        if instance.endswith("_agent"):
            return "agent"
        return "resources" if instance == self.name else "others"

    def _collector(
        self, repeats: int, concurrency: int, rows: Path | None, agent: str, limit: int = 0
    ) -> tuple[float, float, int]:
        for old in self.folder.glob("out*"):
            old.unlink()
        source = (agent, "--input", rows) if rows else (self.name,)
        limited = ("--limit", limit) if limit else ()
        command = (*source, "-o", "out.jsonl", "--repeats", repeats, "--concurrency", concurrency, *limited)
        used, begun = children_cpu(), time.perf_counter()
        process = subprocess.Popen(
            [str(GYM), "rollouts", *map(str, command)], cwd=self.folder, stdout=subprocess.DEVNULL
        )
        meter = Meter([process.pid])
        meter.start()
        code = process.wait()
        seconds = time.perf_counter() - begun
        meter.done.set()
        meter.join()
        if code:
            raise SystemExit(f"gym rollouts ended with {code}")
        return children_cpu() - used, seconds, meter.peak_kib


@contextmanager
def stack(name: str, *overrides: str, ids: int = 0, text: int = 400, steps: int = 0) -> Iterator[Stack]:
    """Of one environment, with an endpoint of its own that is not counted."""
    asked = ("--ids", ids, "--text", text, "--steps", steps)
    argv = [sys.executable, str(ENDPOINT), *map(str, asked)]
    with tempfile.TemporaryDirectory() as folder, subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as endpoint:
        assert endpoint.stdout is not None
        url = endpoint.stdout.readline().strip()
        policy = ("--model", "openai", f"policy_base_url={url}/v1", "policy_api_key=none", "policy_model_name=constant")
        try:
            run(Path(folder), "up", name, *policy, *overrides, "--runtime", "local", "--port", "0")
            try:
                yield Stack(name, Path(folder))
            finally:
                run(Path(folder), "down")
        finally:
            endpoint.terminate()


def children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def load() -> str:
    return f"load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores"


__all__ = ["Cost", "Stack", "children_cpu", "load", "rss_kib", "stack"]

"""CPU and memory of a whole stack plus collector, for one rollout. Prints ratios to a calibration loop of the same run.

    .venv/bin/python tests/bench/rollout_cpu.py [--model openai] [--rollouts 5000] [--concurrency 64]

Counted: supervisor, router, console, agent, resources server, model server (the scripted policy itself) and the
`gym rollouts` process from start to end. With `--model openai` the policy is an endpoint that answers from memory and
is not counted. The figures to beat are of NeMo Gym on this kind of machine: mcqa 25 ms and 3.7 GB, tool 37 ms.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

GYM = Path(sys.executable).with_name("gym")
WORK = {
    "mcqa": ("mcqa", "one model call, verify", 25.0),
    "tool": ("simple_weather", "two model calls, one tool, verify", 37.0),
}
TARGETS = {"scripted": {"mcqa": 2.5, "tool": 4.0}, "openai": {"mcqa": 0.8, "tool": 1.3}}


@dataclass
class Meter(threading.Thread):
    """Samples the summed resident memory of some processes until it is stopped."""

    pids: list[int]
    peak_kib: int = 0
    done: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        while not self.done.wait(0.1):
            self.peak_kib = max(self.peak_kib, sum(rss_kib(pid) for pid in self.pids))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rollouts", type=int, default=5000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--model", choices=list(TARGETS), default="scripted")
    options = parser.parse_args()
    loop = calibrate()
    print(f"calibration loop: {loop:.3f} s CPU for 10 million additions")
    for label, (name, what, peer) in WORK.items():
        with tempfile.TemporaryDirectory() as folder, policy_of(options.model) as words_of_policy:
            total = measure(label, name, what, words_of_policy, peer, options, Path(folder))
        print(f"  {total / loop:.2f} times a thousandth of the calibration loop")
    return 0


@contextmanager
def policy_of(model: str) -> Iterator[tuple[str, ...]]:
    """The arguments of `gym up` for the policy. The endpoint is a process of its own, so that it is not counted."""
    if model == "scripted":
        yield ("--model", model)
        return
    words = [sys.executable, str(Path(__file__).with_name("constant_endpoint.py"))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as endpoint:
        assert endpoint.stdout is not None
        url = endpoint.stdout.readline().strip()
        try:
            yield ("--model", model, f"policy_base_url={url}/v1", "policy_api_key=none", "policy_model_name=constant")
        finally:
            endpoint.terminate()


def measure(
    label: str,
    name: str,
    what: str,
    policy: tuple[str, ...],
    peer: float,
    options: argparse.Namespace,
    folder: Path,
) -> float:
    target = TARGETS[options.model][label]
    run(folder, "up", name, *policy, "--runtime", "local", "--port", "0")
    try:
        pids = stack_pids(folder)
        idle = {pid: rss_kib(pid) for pid in pids}
        run(folder, "rollouts", name, "-o", "warm.jsonl", "--repeats", "20", "--concurrency", "8")
        before, begun = {pid: cpu_seconds(pid) for pid in pids}, time.perf_counter()
        child = resource.getrusage(resource.RUSAGE_CHILDREN)
        repeats = max(1, options.rollouts // 5)
        command = ("rollouts", name, "-o", "out.jsonl", "--repeats", repeats, "--concurrency", options.concurrency)
        meter = Meter(pids)
        meter.start()
        collector = subprocess.Popen([str(GYM), *map(str, command)], cwd=folder, stdout=subprocess.DEVNULL)
        meter.pids = [*pids, collector.pid]
        code = collector.wait()
        wall = time.perf_counter() - begun
        meter.done.set()
        meter.join()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        collected = sum(1 for _ in (folder / "out.jsonl").open())
        if code != 0 or collected != repeats * 5:
            raise SystemExit(f"{label}: `gym rollouts` ended with {code} and {collected} of {repeats * 5} rollouts")
        collecting = after.ru_utime + after.ru_stime - child.ru_utime - child.ru_stime
        spent = {pid: cpu_seconds(pid) - before[pid] for pid in pids}
        total = (sum(spent.values()) + collecting) / collected * 1000
        print(f"{label} ({what}), {collected} rollouts, {options.concurrency} in flight, {collected / wall:.0f}/s")
        for pid in pids:
            each = spent[pid] / collected * 1000
            print(f"    {each:6.3f} ms  {rss_kib(pid) / 1024:5.0f} MB (idle {idle[pid] / 1024:.0f})  {words(pid)}")
        print(f"    {collecting / collected * 1000:6.3f} ms  gym rollouts")
        verdict = "met" if total <= target else "MISSED"
        print(
            f"  CPU {total:.2f} ms a rollout: {peer / total:.1f} times less than the peer; target {target} ms {verdict}"
        )
        print(f"  peak memory of all processes {meter.peak_kib / 1024:.0f} MB; target 500 MB")
        return total
    finally:
        run(folder, "down")


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run([str(GYM), *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"gym {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def stack_pids(folder: Path) -> list[int]:
    """The processes of the stack as `gym ps` knows them, and the supervisor above them."""
    replicas = json.loads(run(folder, "ps", "--json"))["replicas"]
    pids = [int(one["pid"]) for one in replicas if one["pid"]]
    return sorted({parent(pid) for pid in pids} | set(pids))


def parent(pid: int) -> int:
    return int(_stat(pid)[1])


def cpu_seconds(pid: int) -> float:
    """By the clock of the process, on Linux: `/proc` counts in hundredths of a second."""
    return time.clock_gettime((~pid << 3) | 2)


def rss_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)


def words(pid: int) -> str:
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    replica = [value for value in environment if value.startswith(b"GYM_REPLICA=")]
    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return replica[0].decode().partition("=")[2] if replica else " ".join(Path(one).name for one in command.split()[:3])


def calibrate() -> float:
    begun, total = time.process_time(), 0
    for number in range(10_000_000):
        total += number
    return time.process_time() - begun


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


if __name__ == "__main__":
    raise SystemExit(main())

"""What the collector itself costs, against an agent that answers at once: python tests/bench/collector.py [--rows N].

Each figure stands beside a bare loop over the same HTTP client, measured in the same run on the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import uvloop

sys.path.insert(0, str(Path(__file__).parents[2]))

from gym.collect import CollectOptions, run_collection
from gym.collect.keys import DoneKeys
from gym.collect.output_files import scan_lines
from gym.http.pool import HttpClient
from tests.support.agents import FakeAgent, fake_agent

TEXT = "The quick brown fox jumps over the lazy dog. " * 80
REPLY = {
    "responses_create_params": {"input": [{"role": "user", "content": TEXT[:1500]}]},
    "response": {
        "model": "constant",
        "output": [{"type": "message", "content": TEXT[:2000]}],
        "usage": {"input_tokens": 400, "output_tokens": 500, "total_tokens": 900},
    },
    "reward": 1.0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--many", type=int, default=200_000, help="rows of the long run that shows the memory")
    parser.add_argument("--scan-mb", type=int, default=1000)
    parser.add_argument("--only", default="cost,memory,flight,many,scan,bytecode", help="which figures")
    parser.add_argument("--child", nargs=5, metavar=("WAY", "URL", "IN", "OUT", "CONCURRENCY"))
    arguments = parser.parse_args()
    if arguments.child:
        way, url, source, output, concurrency = arguments.child
        print(orjson.dumps(CHILDREN[way](url, source, output, int(concurrency))).decode())
        return
    wanted = arguments.only.split(",")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        with fake_agent(constant=REPLY) as agent:
            if "cost" in wanted:
                show_cost(agent, Path(folder), arguments.rows)
            if "memory" in wanted:
                show_memory(agent, Path(folder), arguments.many)
        if "flight" in wanted:
            with fake_agent(constant=REPLY, delay=0.2) as slow:
                show_in_flight(slow, Path(folder))
        if "many" in wanted:
            with fake_agent(constant=REPLY, delay=6.0) as slow:
                show_many_in_flight(slow, Path(folder))
        if "bytecode" in wanted and hasattr(sys, "monitoring"):
            with fake_agent(constant=REPLY, delay=0.05) as slow:
                show_bytecode(slow, Path(folder))
        if "scan" in wanted:
            show_scan(Path(folder), arguments.scan_mb)


def show_cost(agent: FakeAgent, folder: Path, rows: int) -> None:
    """CPU of the collector's process alone, start and end included in neither way."""
    data = write_rows(folder / "cost.jsonl", rows)
    for concurrency in (64, 512):
        bare = run_child("bare", agent.url, data, folder / "bare.jsonl", concurrency)
        ours = run_child("collect", agent.url, data, folder / f"cost{concurrency}_out.jsonl", concurrency)
        cpu, base = 1e3 * ours["cpu"] / rows, 1e3 * bare["cpu"] / rows
        print(
            f"{rows:,} rows of 4 KB, {concurrency} at once: {cpu:.3f} ms CPU a rollout (bare client {base:.3f}, "
            f"ratio {cpu / base:.2f}; target 0.3 ms), {1e3 / cpu:,.0f}/s a core (target 3,000), "
            f"seen {rows / ours['wall']:,.0f}/s (bare {rows / bare['wall']:,.0f}/s)"
        )


def show_memory(agent: FakeAgent, folder: Path, many: int) -> None:
    """The run, and then what a resume with nothing to do adds: looking through the output, making the aggregates."""
    found = {}
    for rows in (1000, many):
        data, output = write_rows(folder / f"{rows}.jsonl", rows, text=TEXT[:300]), folder / f"{rows}_out.jsonl"
        run = run_child("collect", agent.url, data, output, 64)
        again = run_child("aggregate", agent.url, data, output, 64)
        found[rows] = (run["rss"], again["rss"], again["wall"])
    (few, few_again, _), (lots, lots_again, wall) = found[1000], found[many]
    print(
        f"peak memory: {few:.0f} MB at 1,000 rows, {lots:.0f} MB at {many:,}; of a resume with the aggregates "
        f"{few_again:.0f} and {lots_again:.0f} MB (it took {wall:.0f} s)"
    )


def show_in_flight(agent: FakeAgent, folder: Path) -> None:
    concurrency, rows = 2000, 60_000
    data = write_rows(folder / "slow.jsonl", rows, text=TEXT[:300])
    ours, bare = {"wall": float("inf")}, {"wall": float("inf")}
    for turn in range(3):  # in turns, and the best of each: other work on the machine shows most here
        output = folder / f"slow_out{turn}.jsonl"
        ours = min(ours, run_child("collect", agent.url, data, output, concurrency), key=lambda one: one["wall"])
        bare = min(bare, run_child("bare", agent.url, data, output, concurrency), key=lambda one: one["wall"])
    ideal = rows / concurrency * 0.2
    print(
        f"{concurrency:,} in flight, agent answers after 200 ms: {rows / ours['wall']:,.0f}/s, "
        f"{100 * ideal / ours['wall']:.0f} % of ideal (target 94; bare client {100 * ideal / bare['wall']:.0f} %), "
        f"most in flight {agent.stats()['most']:,}, {1e3 * ours['cpu'] / rows:.3f} ms CPU a rollout "
        f"(target 0.08; bare client {1e3 * bare['cpu'] / rows:.3f})"
    )


def show_many_in_flight(agent: FakeAgent, folder: Path) -> None:
    """What each attempt in flight takes: all are sent before the first is answered."""
    few, many = 100, 10_000
    found = {}
    for way in ("bare", "collect"):
        for count in (few, many):
            data = write_rows(folder / f"{count}.jsonl", count, text=TEXT[:300])
            found[way, count] = run_child(way, agent.url, data, folder / f"{way}{count}_out.jsonl", count)
    each = {way: 1e3 * (found[way, many]["rss"] - found[way, few]["rss"]) / (many - few) for way in ("bare", "collect")}
    print(
        f"{many:,} in flight: {each['collect']:.1f} KB for each (target 40; bare client {each['bare']:.1f}), "
        f"most in flight {agent.stats()['most']:,}, {found['collect', many]['cpu']:.1f} s CPU in all "
        f"(bare client {found['bare', many]['cpu']:.1f}), connections made included"
    )


def show_bytecode(agent: FakeAgent, folder: Path) -> None:
    """Instructions of the interpreter by file, which other work does not change. Python 3.12 or later."""
    rows, concurrency = 2000, 100
    data = write_rows(folder / "counted.jsonl", rows, text=TEXT[:300])
    ours = run_child("collect-counted", agent.url, data, folder / "counted_out.jsonl", concurrency)
    bare = run_child("bare-counted", agent.url, data, folder / "counted_bare.jsonl", concurrency)
    print(f"{sum(ours.values()) / rows:,.0f} instructions a rollout (bare client {sum(bare.values()) / rows:,.0f})")
    for file, count in sorted(ours.items(), key=lambda one: -one[1])[:20]:
        print(f"    {count / rows:6.0f}  {file}")


def show_scan(folder: Path, megabytes: int) -> None:
    """A resume's look at what is done; the baseline reads the same bytes and does nothing with them."""
    for size in (4_000, 50_000):
        path, count = write_done(folder / "done.jsonl", size, megabytes)
        seconds, done = timed(lambda path=path: scan(path))
        base, _ = timed(lambda path=path: read_through(path))
        assert done == count
        rate = path.stat().st_size / 1e6 / seconds
        print(
            f"resume scan, lines of {size // 1000} KB: {rate:,.0f} MB/s "
            f"(target 200; reading alone takes {base / seconds:.2f} of its time)"
        )
        path.unlink()


def scan(path: Path) -> int:
    done = DoneKeys()
    with path.open("rb") as stream:
        scan_lines(path, stream.fileno(), done, lambda agent, reward, kind: None)
    return len(done)


def read_through(path: Path) -> int:
    with path.open("rb", buffering=4 << 20) as stream:
        return sum(1 for _ in stream)


def timed(work: Any) -> tuple[float, int]:
    began = time.perf_counter()
    found: int = work()
    return time.perf_counter() - began, found


def collect_child(url: str, source: str, output: str, concurrency: int) -> dict[str, float]:
    began, cpu = time.perf_counter(), time.process_time()
    options = CollectOptions(
        stack_url=url, inputs=(source,), output=Path(output), concurrency=concurrency, aggregate=False
    )
    summary = run_collection(options, lambda event: None)
    wall, used, rss = time.perf_counter() - began, time.process_time() - cpu, peak_rss()
    assert summary.progress.done == summary.progress.total, summary
    return {"wall": wall, "cpu": used, "rss": rss}


def aggregate_child(url: str, source: str, output: str, concurrency: int) -> dict[str, float]:
    began = time.perf_counter()
    options = CollectOptions(stack_url=url, inputs=(source,), output=Path(output), concurrency=concurrency)
    summary = run_collection(options, lambda event: None)
    assert summary.metrics_file is not None, summary
    return {"wall": time.perf_counter() - began, "rss": peak_rss()}


def bare_child(url: str, source: str, output: str, concurrency: int) -> dict[str, float]:
    bodies = Path(source).read_bytes().splitlines()

    async def work(http: HttpClient) -> None:
        while bodies:
            await http.request("POST", url + "/run", body=bodies.pop())

    async def run() -> None:
        http = HttpClient()
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(work(http))
        await http.aclose()

    began, cpu = time.perf_counter(), time.process_time()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
    return {"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu, "rss": peak_rss()}


def counted(child: Callable[[str, str, str, int], object]) -> Callable[[str, str, str, int], dict[str, float]]:
    """The same, for the number of instructions in each file instead of seconds."""

    def count(*arguments: Any) -> dict[str, float]:
        counts: Counter[str] = Counter()
        monitoring = vars(sys)["monitoring"]
        monitoring.use_tool_id(monitoring.PROFILER_ID, "instructions")
        monitoring.register_callback(
            monitoring.PROFILER_ID,
            monitoring.events.INSTRUCTION,
            lambda code, offset: counts.update((code.co_filename,)),
        )
        monitoring.set_events(monitoring.PROFILER_ID, monitoring.events.INSTRUCTION)
        child(*arguments)
        monitoring.set_events(monitoring.PROFILER_ID, 0)
        return {name.rpartition("/gym/")[2]: float(found) for name, found in counts.items()}

    return count


CHILDREN = {
    "collect": collect_child,
    "aggregate": aggregate_child,
    "bare": bare_child,
    "collect-counted": counted(collect_child),
    "bare-counted": counted(bare_child),
}


def run_child(way: str, url: str, source: Path, output: Path, concurrency: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", way, url, str(source), str(output), str(concurrency)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    figures: dict[str, float] = orjson.loads(done.stdout)
    return figures


def peak_rss() -> float:
    """MB; the kernel counts in KB on Linux and in bytes on macOS."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def write_rows(path: Path, rows: int, text: str = TEXT) -> Path:
    with path.open("wb") as stream:
        for number in range(rows):
            row = {"responses_create_params": {"input": [{"role": "user", "content": text}]}, "id": number}
            stream.write(orjson.dumps(row) + b"\n")
    return path


def write_done(path: Path, size: int, megabytes: int) -> tuple[Path, int]:
    count = megabytes * 1_000_000 // size
    with path.open("wb") as stream:
        for number in range(count):
            stamp = {"key": f"{number * 0x9E3779B97F4A7C15 & (1 << 64) - 1:016x}:0", "agent": "agent", "reward": 1.0}
            stream.write(b'{"text":"%b","_gym":%b}\n' % (b"x" * (size - 100), orjson.dumps(stamp)))
    return path, count


if __name__ == "__main__":
    main()

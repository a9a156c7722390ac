"""A cluster of 1,000 nodes and 1,000,000 rollouts in simulated time: where it bends, and which setting moves that.

    nice .venv/bin/python -m tests.bench.simulate            # the tables of docs/scale.md
    nice .venv/bin/python -m tests.bench.simulate measure    # CPU of each process, into simulate_measured.json
    nice .venv/bin/python -m tests.bench.simulate validate   # the same stack simulated and run here: the error

Real: the planner, the collector (reader, feed, fair queue, retries, circuit breaker, choice of replicas, keys), the
broker (admission, warm pools, leases, image pulls). Simulated: time, HTTP, what servers do, the engine, the registry.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gym.collect.collect_options import CollectOptions
from gym.config.model import ContainerFacts
from gym.plan import make_plan
from tests.bench.simulate_measure import FILE, available_cores, collect, local_stack, measure, rate_of
from tests.support.plans import stack
from tests.support.simulated_cluster import ENGINE_CORES, SERVER_CORES
from tests.support.simulated_collection import simulate_collection
from tests.support.simulated_parts import ServiceTime
from tests.support.simulated_settings import CpuTimes, Result, Scale, Work

NODES = (1, 3, 10, 30, 100, 300, 1000)
FLIGHTS = 3  # rollouts of a point, as a multiple of those under way
ENOUGH = frozenset({"policy", "engine", "node cores"})  # what grows with the nodes: no setting is needed
OTHER_CORES = SERVER_CORES + ENGINE_CORES
MOST_AT_ONCE = 10_000  # of one collector
TEXT = Work("text: one model call of 10 s, verify")
SHORT = Work("short: one model call of 1 s, verify", policy=ServiceTime(1.0, 0.5))
ROUTED = replace(SHORT, name="short, every collector through the router")
SANDBOX = Work("sandbox: as text, 5 s of CPU in a sandbox of one of 2,000 images", images=2000, policy_places=16)
COMMAND = ServiceTime(0.05, 0.5)
CODE = replace(SHORT, name="code: a sandbox of one image for a command of 50 ms", images=1, commands=COMMAND)


@dataclass(frozen=True)
class Point:
    scale: Scale
    changed: str
    result: Result
    seconds: float  # real


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", nargs="?", choices=("knees", "million", "measure", "validate"), default="")
    parser.add_argument("--only", default="", choices=("", *LADDERS), help="one of the tables")
    parser.add_argument("--nodes", type=int, default=NODES[-1], help="the most of them")
    parser.add_argument("--rollouts", type=int, default=1_000_000, help="of the long run")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    began = time.perf_counter()
    if arguments.mode == "measure":
        FILE.write_text(json.dumps(measure(), indent=2) + "\n")
        print(FILE.read_text())
    elif arguments.mode == "validate":
        validate()
    else:
        show_assumptions()
        run_jobs(arguments)
    print(f"{time.perf_counter() - began:.0f} s")


def run_jobs(arguments: argparse.Namespace) -> None:
    """Each in a process of its own, as many at once as there are cores; what they print comes in order."""
    jobs = []
    if arguments.mode in ("", "million"):
        jobs.append(("million", arguments.nodes, arguments.rollouts))
    if arguments.mode in ("", "knees"):
        jobs += [(name, arguments.nodes, 0) for name in LADDERS if arguments.only in ("", name)]
    with multiprocessing.get_context("spawn").Pool(os.cpu_count(), maxtasksperchild=1) as pool:
        for text in pool.imap(run_job, jobs):
            print(text, flush=True)


def run_job(job: tuple[str, int, int]) -> str:
    name, most, rollouts = job
    logging.disable(logging.WARNING)
    began = time.perf_counter()
    lines = list(million(most, rollouts) if name == "million" else LADDERS[name](most))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return "\n".join([*lines, f"({time.perf_counter() - began:.0f} s, {memory:,.0f} MB)", ""])


def cpu_times() -> CpuTimes:
    return CpuTimes.from_json(json.loads(FILE.read_text()))


def show_assumptions() -> None:
    measured = json.loads(FILE.read_text())
    print(f"measured {measured['measured']} at load {measured['load']}: {measured['machine']}")
    for name, one in measured["cpu_seconds"].items():
        print(f"  {name:10} {1e3 * one['mean']:9.3f} ms CPU a rollout, spread {one['spread']}")
    print(f"  {TEXT}\n  {SANDBOX}\n")


# Where it bends.


def text_ladder(most: int) -> Iterator[str]:
    yield from ladder(TEXT, Scale(), [one for one in NODES if one <= min(most, 300)])  # 1,000: the long run


def short_ladder(most: int) -> Iterator[str]:
    yield from ladder(SHORT, Scale(), [one for one in NODES if one <= min(most, 100)])


def routed_ladder(most: int) -> Iterator[str]:
    scale = Scale(routed=True, collectors=4, concurrency=2000)
    yield from ladder(ROUTED, scale, [one for one in (30, 100) if one <= most])


def sandbox_ladder(most: int) -> Iterator[str]:
    yield from ladder(SANDBOX, Scale(), [one for one in NODES if one <= min(most, 100)])


def pools(most: int) -> Iterator[str]:
    """What ready sandboxes change on one node; and where the one process of a broker is full."""
    yield f"{CODE.name}\n{HEAD}"
    for warm, at_once in ((0, 4), (8, 4), (0, 64), (8, 64)):
        point = run_point(Scale(warm=warm, concurrency=at_once), CODE, f"warm: {warm}", 2000)
        yield f"{line_of(point, CODE)}; a rollout takes {point.result.latency:.2f} s"
    fast, many = replace(cpu_times(), engine=ServiceTime(0.005)), replace(CODE, node_cores=32, policy_places=256)
    for stacks in (1, 2):
        scale = Scale(nodes=4, stacks=stacks, concurrency=1000 // stacks)
        point = run_point(scale, many, f"an engine of 5 ms, {stacks} broker{'s' * (stacks > 1)}", 8_000, fast)
        yield line_of(point, many, fast)


LADDERS = {
    "text": text_ladder,
    "short": short_ladder,
    "routed": routed_ladder,
    "sandbox": sandbox_ladder,
    "pools": pools,
}


def ladder(work: Work, scale: Scale, steps: Sequence[int]) -> Iterator[str]:
    """Nodes are added with the settings as they are; where they bend, one setting is changed until nodes help again."""
    yield f"{work.name}\n{HEAD}"
    for nodes in steps:
        scale, changed = scale.with_(nodes=nodes), ""
        if scale.stacks > 1:  # a stack for each node, once there are several
            scale = scale.with_(stacks=nodes)
        while True:
            point = run_point(scale, work, changed)
            yield line_of(point, work)
            following, changed = move(scale, work, point.result)
            if not changed:
                break
            scale = following


def run_point(scale: Scale, work: Work, changed: str, rollouts: int = 0, cpu: CpuTimes | None = None) -> Point:
    began = time.perf_counter()
    places = min(scale.in_flight, work.policy_places * scale.nodes * 2)
    repeats = 16 if work.images else 64
    count = rollouts or max(FLIGHTS * places, 2000)
    result = simulate_collection(scale, work, cpu or cpu_times(), count, repeats=repeats)
    return Point(scale, changed, result, time.perf_counter() - began)


def move(scale: Scale, work: Work, result: Result) -> tuple[Scale, str]:
    """The setting that moves the limit, and how it is written; "" where more nodes are what helps."""
    limit = result.limit
    wanted = work.policy_places * scale.nodes // (scale.stacks * scale.collectors)
    if limit == "--concurrency" and scale.concurrency < min(wanted, MOST_AT_ONCE):
        more = min(wanted + wanted // 8 + 1, MOST_AT_ONCE)
        return scale.with_(concurrency=more), f"--concurrency {more}"
    if limit in ("--concurrency", "collector") and wanted > scale.concurrency or limit == "collector":
        more = max(-(-work.policy_places * scale.nodes // (scale.stacks * MOST_AT_ONCE)), scale.collectors + 1)
        if limit == "collector":
            more = scale.collectors * 2
        return scale.with_(collectors=more), f"{scale.stacks * more} collectors, --shard i/{scale.stacks * more}"
    if limit == "router":
        return scale.with_(routers=scale.routers * 2), f"{scale.routers * 2} routers"
    if limit.endswith("replicas"):
        return scale.with_(replicas=scale.replicas * 2), f"replicas: {scale.replicas * 2} on each node"
    if limit in ("broker", "engine", "sandbox cores", "console") and scale.stacks < scale.nodes:
        each = min(max(work.policy_places * 2, 16), MOST_AT_ONCE)
        moved = scale.with_(stacks=scale.nodes, collectors=1, concurrency=each)
        return moved, f"a stack for each node, --shard i/{scale.nodes} --concurrency {each}"
    if limit == "registry":
        mirrors = max(scale.mirrors * 2, 2)
        return scale.with_(mirrors=mirrors, prefetch=True), f"{mirrors} mirrors of the registry, filled before"
    return scale, ""


HEAD = f"{'nodes':>6} {'in flight':>9} {'rate/s':>9} {'of nodes':>8}  {'limit':<19} {'used':>5}  changed before"


def line_of(point: Point, work: Work, cpu: CpuTimes | None = None) -> str:
    scale, result = point.scale, point.result
    ideal = best_rate(scale, work, cpu)
    used = f"{result.used[result.limit]:5.2f}" if result.limit in result.used else "     "
    return (
        f"{scale.nodes:6,} {scale.in_flight:9,} {result.rate:9,.1f} {result.rate / ideal:8.2f}  {result.limit:<19} "
        f"{used}  {point.changed or '-'}"
    )


def best_rate(scale: Scale, work: Work, cpu: CpuTimes | None = None) -> float:
    """What the nodes' policy and sandboxes give, when nothing else is in the way."""
    policy = work.policy_places * scale.nodes / work.policy.mean
    if not work.images:
        return policy
    cpu = cpu or cpu_times()
    sandboxes = min(ENGINE_CORES / cpu.engine.mean, (work.node_cores - OTHER_CORES) / work.commands.mean)
    return min(policy, scale.nodes * sandboxes)


# The long run.


def million(nodes: int, rollouts: int) -> Iterator[str]:
    """All at once, with the settings that the first table ends with, and 1 attempt of 1,000 failing."""
    replicas = min(nodes, 1000)
    began = time.process_time()
    config = stack()
    each = tuple(one.model_copy(update={"container": ContainerFacts(replicas=replicas)}) for one in config.instances)
    plan = make_plan(config.model_copy(update={"instances": each}))
    count = sum(one.replicas for one in plan.services)
    yield f"the plan of {count:,} replicas: {1e3 * (time.process_time() - began):.0f} ms CPU"
    work = Work("text", failures=0.001)
    places = work.policy_places * nodes
    collectors = max(-(-places // 8000), 1)
    scale = Scale(nodes=nodes, collectors=collectors, concurrency=min(places // collectors + 500, MOST_AT_ONCE))
    CollectOptions(stack_url="http://router", inputs=("rows",), output=FILE, concurrency=scale.concurrency)
    point = run_point(scale, work, "", rollouts)
    result = point.result
    yield f"{nodes:,} nodes, {result.rollouts:,} rollouts\n{HEAD}\n{line_of(point, work)}"
    yield (
        f"ended {result.rollouts:,}, failed {result.failed:,}, attempts {result.attempts:,} "
        f"({result.retries:,} again), {result.pauses} pauses, {result.seconds:,.0f} s simulated; each key once"
    )
    used = ", ".join(f"{kind} {share:.2f}" for kind, share in sorted(result.used.items(), key=lambda one: -one[1]))
    yield f"used in the middle of the run: {used}"


# Against this machine.


def validate() -> None:
    """The rate here, and what the simulation says of the same stack with the cores that this machine has free."""
    print(f"{'replicas':>8} {'policy s':>8} {'in flight':>9} {'here/s':>8} {'simulated/s':>11} {'error':>7}")
    errors = []
    for latency in (0.0, 0.1, 0.5):
        for replicas in (1, 2, 4):
            here, cores = run_here(replicas, latency)
            there = run_simulated(replicas, latency, cores)
            errors.append(abs(there / here - 1))
            print(
                f"{replicas:8} {latency:8} {64:9} {here:8.1f} {there:11.1f} {there / here - 1:+7.1%}   "
                f"{cores:.2f} cores free",
                flush=True,
            )
    print(f"mean error {sum(errors) / len(errors):.1%}, largest {max(errors):.1%}")


def run_here(replicas: int, latency: float) -> tuple[float, float]:
    with local_stack(replicas, latency) as folder:
        before = available_cores()
        collect(folder, "run", 6000 if latency < 0.2 else 2000)
        return rate_of(folder / "run.jsonl"), (before + available_cores()) / 2


def run_simulated(replicas: int, latency: float, cores: float) -> float:
    count = os.cpu_count() or 1
    measured = cpu_times()
    slower = count / cores
    cpu = CpuTimes(
        collector=_slower(measured.collector, slower),
        agent=_slower(measured.agent, slower),
        model=_slower(measured.model, slower),
        resources=_slower(measured.resources, slower),
    )
    work = Work("here", ServiceTime(latency), 10_000, count, beside=True)
    return simulate_collection(Scale(replicas=replicas), work, cpu, 6400).rate


def _slower(one: ServiceTime, times: float) -> ServiceTime:
    return ServiceTime(one.mean * times, one.spread)


if __name__ == "__main__":
    main()

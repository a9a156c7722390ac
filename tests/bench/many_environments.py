"""A stack of many environments, each with its agent: time to up and down, CPU, memory. Once with a process or container
for each instance, once with those that `--share` puts together.

python -m tests.bench.many_environments [--environments 32] [--runtime compose]
    [--only apart|shared] [--subnet 10.99.0.0/22]

The first start makes environments, caches or images, and is not counted. The baseline: as many processes that import
the SDK, measured in the same run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from gym.runtime.compose.containers import Container
from gym.runtime.compose.converge import containers_of
from gym.runtime.compose.layout import Layout
from tests.bench.rollout_cpu import cpu_seconds, parent, run, stack_pids
from tests.bench.stack_cost import children_cpu, load
from tests.support.docker import engine_client

# Those that need no sandbox, service or key.
ENVIRONMENTS = """
arc_agi calendar citation_if equivalence_rule format_verification gpqa_diamond graphwalks hotpotqa_qa
instruction_following math_advanced_calculations mcp_weather mcqa mrcr multi_step multi_turn polymath ruler
simple_weather single_step_tool_use single_tool_call_multireward stateful_counter string_match structeval
structured_outputs text_to_sql workplace_assistant xlam_fc xstest reasoning_gym gymnasium math_with_judge simpleqa
equivalence_llm_judge
"""
SDK = "import gym.server.serve, gym.server.agent, gym.server.model, gym.server.resources"
MIB = 1024 * 1024


class Cost(NamedTuple):
    what: str  # of what there is how much
    pids: list[int]
    more: str = ""  # what else is known


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environments", type=int, default=32)
    parser.add_argument("--runtime", choices=("local", "compose"), default="local")
    parser.add_argument("--only", choices=("apart", "shared"))
    parser.add_argument("--subnet", help="of the containers, where the engine's own have too few addresses")
    options = parser.parse_args()
    chosen = ENVIRONMENTS.split()[: options.environments]
    words = ("up", *chosen, "scripted_judge", "--model", "scripted", "--runtime", options.runtime, "--port", "0")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words = (*words, *override(folder, options.subnet))
        run(folder, *words)
        run(folder, "down")
        for how, flag in (("apart", "--no-share"), ("shared", "--share")):
            if options.only in (None, how):
                print(f"{len(chosen)} environments on {options.runtime}, {how}:")
                measure(folder, (*words, flag), options.runtime)
    return 0


def override(folder: Path, subnet: str | None) -> tuple[str, ...]:
    if not subnet:
        return ()
    path = folder / "subnet.yaml"
    path.write_text(f"networks: {{stack: {{ipam: {{config: [{{subnet: {subnet}}}]}}}}}}\n")
    return ("-f", str(path))


def measure(folder: Path, words: tuple[str, ...], runtime: str) -> None:
    before, begun = children_cpu(), time.perf_counter()
    run(folder, *words)
    try:
        up, command = time.perf_counter() - begun, children_cpu() - before
        cost = in_containers(folder) if runtime == "compose" else in_processes(folder)
        cpu, memory = command + sum(map(cpu_seconds, cost.pids)), sum(map(proportional_mib, cost.pids))
    finally:
        begun = time.perf_counter()
        run(folder, "down")
    down = time.perf_counter() - begun
    ratio = cpu / len(cost.pids) / import_seconds()
    print(f"  {cost.what}, {load()}")
    print(f"  up {up:.1f} s, {cpu:.1f} s CPU ({ratio:.2f} of importing the SDK in each process); down {down:.1f} s")
    print(f"  memory {memory:.0f} MiB, each page counted once ({memory / len(cost.pids):.1f} a process){cost.more}")


def in_processes(folder: Path) -> Cost:
    pids = stack_pids(folder)
    return Cost(f"{len(pids)} processes", pids)


def in_containers(folder: Path) -> Cost:
    """Their processes, and those by which the engine holds them; the engine itself is not counted."""
    with engine_client() as client:
        found = containers_of(client, Layout((folder / ".gym" / "gym").resolve()))
        main = {one.id: int(client.api.inspect_container(one.id)["State"]["Pid"]) for one in found}
        stats = [client.api.stats(one.id, stream=False, one_shot=True)["memory_stats"] for one in found]
        inside = [pid for first in main.values() for pid in (first, *children(first))]
    used = sum(one["usage"] - one["stats"].get("total_inactive_file", 0) for one in stats) / MIB
    shims = {parent(pid) for pid in main.values()}
    held = sum(map(proportional_mib, shims))
    more = f"; by control groups {used:.0f} MiB; {len(shims)} shims of the engine {held:.0f} MiB more"
    return Cost(f"{len(found)} containers ({kinds(found)}), {len(inside)} processes", inside, more)


def children(pid: int) -> list[int]:
    """What the engine runs to ask for its health is not among them: it is not a child."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [each for one in map(int, found) for each in (one, *children(one))]


def kinds(found: list[Container]) -> str:
    shared = [one for one in found if len(one.seats) > 1]
    return f"{len(shared)} with {sum(len(one.seats) for one in shared)} instances" if shared else "one an instance"


def proportional_mib(pid: int) -> float:
    """A page that several share counts for each in part."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def import_seconds() -> float:
    before = children_cpu()
    for _ in range(5):
        subprocess.run([sys.executable, "-P", "-c", SDK], check=True)
    return (children_cpu() - before) / 5


if __name__ == "__main__":
    raise SystemExit(main())

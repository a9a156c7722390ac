"""A stack of many environments on the local runtime, each with its agent: time to up and down, CPU, memory.

python -m tests.bench.many_environments [--environments 32]

The first start makes environments and caches, and is not counted. The baseline: as many processes that import the SDK,
measured in the same run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.rollout_cpu import cpu_seconds, run, stack_pids
from tests.bench.stack_cost import children_cpu, load

# Those that need no sandbox, service or key.
ENVIRONMENTS = """
arc_agi calendar citation_if equivalence_rule format_verification gpqa_diamond graphwalks hotpotqa_qa
instruction_following math_advanced_calculations mcp_weather mcqa mrcr multi_step multi_turn polymath ruler
simple_weather single_step_tool_use single_tool_call_multireward stateful_counter string_match structeval
structured_outputs text_to_sql workplace_assistant xlam_fc xstest reasoning_gym gymnasium math_with_judge simpleqa
"""
SDK = "import gym.server.serve, gym.server.agent, gym.server.model, gym.server.resources"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environments", type=int, default=32)
    chosen = ENVIRONMENTS.split()[: parser.parse_args().environments]
    words = ("up", *chosen, "scripted_judge", "--model", "scripted", "--runtime", "local", "--port", "0")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(folder, *words)
        run(folder, "down")
        before, begun = children_cpu(), time.perf_counter()
        run(folder, *words)
        try:
            up, command = time.perf_counter() - begun, children_cpu() - before
            pids = stack_pids(folder)
            cpu, memory = command + sum(map(cpu_seconds, pids)), sum(map(proportional_mib, pids))
        finally:
            begun = time.perf_counter()
            run(folder, "down")
    down = time.perf_counter() - begun
    alone = import_seconds()
    print(f"{len(chosen)} environments, {len(pids)} processes, {load()}")
    ratio = cpu / len(pids) / alone
    print(f"up {up:.1f} s, {cpu:.1f} s CPU ({ratio:.2f} of importing the SDK in each); down {down:.1f} s")
    print(f"memory {memory:.0f} MiB, each page counted once ({memory / len(pids):.1f} a process)")
    return 0


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

"""From a save to a server that runs it, as `gym up --watch` tells: wall time, and the CPU of the command that watches.

python tests/bench/watch_reload.py [local|compose ...]

The baseline is `python -c "import gym.server.serve"`, the least that a reload has to run, in the same run.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support.cli import Terminal, gym

ROUNDS = 7


def cpu_seconds(pid: int) -> float:
    """Of a process and what it has waited for. What it starts in a container, or by the supervisor, is another's."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def start_seconds() -> tuple[float, float]:
    """Wall and CPU of what no reload can do without."""
    argv = (sys.executable, "-c", "import gym.server.serve")
    found = []
    for _ in range(ROUNDS + 1):
        began = time.perf_counter()
        process = subprocess.Popen(argv)
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0  # it is waited for already
        found.append((time.perf_counter() - began, usage.ru_utime + usage.ru_stime))
    return medians(found[1:])


def medians(found: list[tuple[float, float]]) -> tuple[float, float]:
    wall, cpu = (statistics.median(values) for values in zip(*found, strict=True))
    return wall, cpu


def measure(runtime: str, folder: Path) -> list[tuple[float, float]]:
    """Wall and CPU seconds of each save."""
    gym("new", "resources", "tally", cwd=folder)
    words = ("up", "tally", "--model", "scripted", "--runtime", runtime, "--port", "0", "--watch")
    found = []
    with Terminal(*words, cwd=folder) as terminal:
        try:
            terminal.wait_for("watching the servers' files", timeout=600)
            app = folder / "tally" / "app.py"
            for number in range(ROUNDS + 1):
                began, spent = time.perf_counter(), cpu_seconds(terminal.process.pid)
                app.write_text(f"{app.read_text()}\n# {number}\n")
                terminal.wait_for(rf"(?s)(app\.py saved: tally reloaded in.*){{{number + 1}}}")
                found.append((time.perf_counter() - began, cpu_seconds(terminal.process.pid) - spent))
        finally:
            gym("down", cwd=folder)
    return found[1:]  # the first one writes what Python compiles


def main() -> None:
    least, spent = start_seconds()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores; a server's imports {least:.2f} s, {spent:.2f} s CPU")
    for runtime in sys.argv[1:] or ("local", "compose"):
        with tempfile.TemporaryDirectory(prefix="gym-watch-") as folder:
            found = measure(runtime, Path(folder))
        wall, cpu = medians(found)
        worst = max(one for one, _ in found)
        print(
            f"{runtime:8} median {wall:5.2f} s, worst {worst:5.2f} s, {wall / least:4.1f} times the imports; "
            f"the command {cpu:.2f} s CPU; load {os.getloadavg()[0]:.1f}"
        )


if __name__ == "__main__":
    main()

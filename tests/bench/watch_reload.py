"""From a save to a server that runs it, as `gym up --watch` tells: wall time, and the CPU of what is started for it.

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


def cpu_seconds() -> float:
    """Of the whole machine, for a container's processes are no children of ours."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system = (int(one) for one in fields[:3])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def start_seconds() -> float:
    argv = (sys.executable, "-c", "import gym.server.serve")
    subprocess.run(argv, check=True)
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        subprocess.run(argv, check=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


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
                began, spent = time.perf_counter(), cpu_seconds()
                app.write_text(f"{app.read_text()}\n# {number}\n")
                terminal.wait_for(rf"(?s)(app\.py saved: tally reloaded in.*){{{number + 1}}}")
                found.append((time.perf_counter() - began, cpu_seconds() - spent))
        finally:
            gym("down", cwd=folder)
    return found[1:]  # the first one writes what Python compiles


def main() -> None:
    least = start_seconds()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; a server's imports alone: {least:.2f} s")
    for runtime in sys.argv[1:] or ("local", "compose"):
        with tempfile.TemporaryDirectory(prefix="gym-watch-") as folder:
            found = measure(runtime, Path(folder))
        wall, cpu = (statistics.median(values) for values in zip(*found, strict=True))
        worst = max(one for one, _ in found)
        print(
            f"{runtime:8} median {wall:5.2f} s, worst {worst:5.2f} s, {wall / least:4.1f} times the imports; "
            f"{cpu:5.2f} s CPU of the machine, load {os.getloadavg()[0]:.1f}"
        )


if __name__ == "__main__":
    main()

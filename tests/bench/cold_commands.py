"""CPU time of commands that start from nothing, over that of a Python that does nothing.

python tests/bench/cold_commands.py, in the folder of a stack with mcqa where `ps` and one row are to be measured too
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

COMMANDS = ("--help", "--version", "list", "list --json", "info mcqa", "ls", "ps", "rollouts --help")
ONE_ROW = "rollouts mcqa -o one.jsonl --limit 1 --fresh"
ROUNDS = 15


def cpu_seconds(argv: Sequence[str]) -> float:
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0  # it is waited for already
    return usage.ru_utime + usage.ru_stime


def median(argv: Sequence[str]) -> float:
    cpu_seconds(argv)  # the first one writes what Python compiles
    return statistics.median(cpu_seconds(argv) for _ in range(ROUNDS))


def main() -> None:
    nothing = median([sys.executable, "-c", "pass"])
    print(f"{'python -c pass':20} {nothing:6.3f} s CPU")
    for words in (*COMMANDS, *([ONE_ROW] if Path(".gym").is_dir() else [])):
        spent = median([sys.executable, "-m", "gym", *words.split()])
        print(f"{'gym ' + words:20} {spent:6.3f} s CPU, {spent / nothing:5.1f} times as much")


if __name__ == "__main__":
    main()

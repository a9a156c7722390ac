"""What the pages Runs and Compare cost over long runs, in CPU time: `python -m tests.bench.console_runs [ROLLOUTS]`."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from gym.console.compare.run_pairs import compare_runs
from gym.console.runs.run_board import RunBoard
from gym.console.viewer.run_files import RunFiles
from tests.support.rollout_files import rollout

REPEATS = 8


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("before", "after"):
            write(Path(folder, f"{name}.jsonl"), count, random.Random(name))
        files = RunFiles([Path(folder)])
        measure("read both runs", lambda: files.refresh(whole=True))
        board = RunBoard(files)
        measure("figures of a run, first", lambda: board.figures("before", 0.5))
        measure("figures of a run, again", lambda: board.figures("before", 0.5))
        write(Path(folder, "before.jsonl"), 100, random.Random(3), start=count)
        measure("figures after 100 more", lambda: board.figures("before", 0.5))
        measure("a page of tasks", lambda: board.tasks("before", "-spread", 0, 50, 0.5))
        runs = [files.runs[name] for name in ("before", "after")]
        measure("compared", lambda: compare_runs(runs[0], runs[1], None, 0.5))
        files.close()


def write(path: Path, count: int, chance: random.Random, start: int = 0) -> None:
    with path.open("ab") as stream:
        for each in range(start, start + count):
            task, repeat = divmod(each, REPEATS)
            row = rollout(task, repeat, round(chance.random(), 3), accuracy=chance.random(), style=chance.random())
            row["_gym"] |= {"key": f"{task + 1:016x}:{repeat}", "started": 1e9 + each, "hops": {"model": 200.0}}
            stream.write(orjson.dumps(row) + b"\n")


def measure(name: str, call: Callable[[], Any]) -> None:
    began = time.process_time()
    call()
    print(f"{name:28}{1000 * (time.process_time() - began):9.1f} ms CPU")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)

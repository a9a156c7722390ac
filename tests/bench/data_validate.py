"""MB/s of CPU time that validating rows takes, and peak memory: the contract alone, and with a server's own fields.

    .venv/bin/python tests/bench/data_validate.py [--mb 200] [--server mcqa]

Rows of 4 KB are written to a file first. Beside it, on the same file: `jq -c .` where there is one, and `orjson.loads`
of every line. The figures of `gym data validate` are those of the whole command, its processes and their start in them;
`check_lines` is the library alone, in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import string
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from gym.data.line_source import read_lines
from gym.data.row_rules import check_files

ROW = 4096
RESOURCES = Path(__file__).parents[2] / "servers" / "resources"


class Figure(NamedTuple):
    cpu: float
    wall: float
    peak: int  # bytes, of the largest process


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "rows.jsonl"
        write_rows(path, options.server, options.mb << 20)
        size = path.stat().st_size
        gym = (sys.executable, "-m", "gym", "data", "validate", "--jobs", "1")
        figures = {
            "orjson.loads of each line": measure_call("loads", path),
            "check_lines (library)": measure_call("check", path),
            "gym data validate --contract": measure((*gym, "--contract", str(path))),
            f"gym data validate {options.server}": measure((*gym, options.server, str(path))),
        }
        if jq := shutil.which("jq"):
            figures["jq -c ."] = measure((jq, "-c", ".", str(path)))
    for name, one in figures.items():
        cpu, wall = size / one.cpu / 1e6, size / one.wall / 1e6
        line = f"{name:34} {cpu:7.0f} MB/s of CPU  {wall:7.0f} MB/s of wall clock  {one.peak / 2**20:5.0f} MB at most"
        sys.stdout.write(line + "\n")
    return 0


def measure(argv: Sequence[str]) -> Figure:
    """A command with all that it starts; its output is thrown away."""
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        with open(os.devnull, "r+b", buffering=0) as nothing:  # noqa: PTH123 (descriptors)
            for number in (0, 1, 2):
                os.dup2(nothing.fileno(), number)
        os.execv(argv[0], list(argv))  # noqa: S606
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(argv)} ended with {os.waitstatus_to_exitcode(status)}")
    return Figure(used.ru_utime + used.ru_stime, time.monotonic() - began, used.ru_maxrss * 1024)


def measure_call(what: str, path: Path) -> Figure:
    return measure((sys.executable, __file__, "--run", what, str(path)))


def run(what: str, path: str) -> int:
    if what == "loads":
        for line in read_lines([path]):
            orjson.loads(line.raw)
        return 0
    return int(any(checked.row is None for checked in check_files([path])))


def write_rows(path: Path, server: str, size: int) -> None:
    """The server's example rows, filled up with words to 4 KB each."""
    examples = [
        orjson.loads(line) for line in (RESOURCES / server / "data" / "example.jsonl").read_bytes().splitlines()
    ]
    texts = list(fillings(random.Random(7), 200))
    with path.open("wb") as file:
        number = written = 0
        while written < size:
            line = filled(examples[number % len(examples)], texts[number % len(texts)], number)
            written += file.write(line + b"\n")
            number += 1


def filled(row: dict[str, Any], text: str, number: int) -> bytes:
    """Written as `json.dumps` writes it, which is how most data sets are."""
    room = ROW - len(json.dumps(row)) - 60
    system = {"role": "system", "content": f"{number} {text[: max(0, room)]}"}
    asked = row["responses_create_params"]["input"]
    asked = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    return json.dumps(
        {**row, "responses_create_params": {**row["responses_create_params"], "input": [system, *asked]}}
    ).encode()


def fillings(chance: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        words = ("".join(chance.choices(string.ascii_lowercase, k=chance.randint(2, 9))) for _ in range(ROW // 4))
        yield " ".join(word if chance.random() > 0.05 else f'"{word}",\n' for word in words)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=200)
    parser.add_argument("--server", default="mcqa")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(run(sys.argv[2], sys.argv[3]) if sys.argv[1:2] == ["--run"] else main())

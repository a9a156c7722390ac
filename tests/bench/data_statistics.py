"""MB/s of CPU time that measuring rows takes, and peak memory: statistics, checking with statistics, and preparing.

    .venv/bin/python tests/bench/data_statistics.py [--mb 200] [--server mcqa]

Rows of 4 KB are written to a file first. Beside it, on the same file: `orjson.loads` of every line, and `jq -c .` where
there is one. Everything runs in one process, so the figures are those of one core.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import orjson

sys.path.insert(0, str(Path(__file__).parents[2]))

from gym.config import Instance, Stack
from gym.data.line_blocks import read_blocks
from gym.data.preparation import PrepareOptions, prepare
from gym.data.row_rules import MAX_LINE, Checked, check_files
from gym.data.statistics import Statistics
from tests.bench.data_validate import measure, write_rows


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        path = Path(scratch) / "rows.jsonl"
        write_rows(path, options.server, options.mb << 20)
        size = path.stat().st_size
        figures = {name: measure((sys.executable, __file__, "--run", name, str(path))) for name in RUNS}
        if jq := shutil.which("jq"):
            figures["jq -c ."] = measure((jq, "-c", ".", str(path)))
    base = figures["loads"].cpu
    for name, one in figures.items():
        rate, times = size / one.cpu / 1e6, one.cpu / base
        print(f"{name:12} {rate:6.0f} MB/s of CPU  {times:5.1f} x orjson.loads  {one.peak / 2**20:5.0f} MB at most")
    return 0


def loads(path: str) -> None:
    for block in read_blocks([path], MAX_LINE):
        for line in block.lines():
            orjson.loads(line.raw)


def statistics(path: str) -> None:
    found = Statistics()
    for block in read_blocks([path], MAX_LINE):
        for line in block.lines():
            found.observe(orjson.loads(line.raw))
    assert found.to_json()


def checked(path: str) -> None:
    """What the figure of 60 MB/s is about: each row held to the contract, and measured."""
    found = Statistics()
    for one in check_files([path]):
        if one.row is not None:
            found.observe(one.row)
    assert found.to_json()["Number of examples"]


def prepared(path: str) -> None:
    """Read twice, compared, and written."""
    _prepare(path, None)


def shuffled(path: str) -> None:
    _prepare(path, 1)


def _prepare(path: str, seed: int | None) -> None:
    block = {"name": "rows", "type": "train", "jsonl_fpath": path, "license": "MIT"}
    names = {one.row["agent_ref"]["name"] for one in _first(path) if one.row and one.row.get("agent_ref")}
    agent = Instance(
        name=next(iter(names), "agent"),
        type="responses_api_agents",
        implementation="simple_agent",
        fields={"datasets": [block]},
    )
    out = Path(path).parent / f"out-{seed}"
    prepare(Stack(instances=(agent,)), PrepareOptions(out, "train_preparation", True, seed), (out,))
    shutil.rmtree(out)


def _first(path: str) -> list[Checked]:
    return [one for _, one in zip(range(1), check_files([path]), strict=False)]


RUNS: dict[str, Callable[[str], None]] = {
    "loads": loads,
    "statistics": statistics,
    "checked": checked,
    "prepared": prepared,
    "shuffled": shuffled,
}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=200)
    parser.add_argument("--server", default="mcqa")
    parser.add_argument("--scratch", help="a folder on a disk with room for three times the rows")
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        RUNS[sys.argv[2]](sys.argv[3])
        raise SystemExit(0)
    raise SystemExit(main())

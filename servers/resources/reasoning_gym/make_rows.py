"""Makes rows of reasoning-gym tasks: python make_rows.py --task sudoku,countdown --size 100 --seed 7 > rows.jsonl.

`--task all` takes every task in turn. Needs the package: `uv run --with reasoning-gym python make_rows.py`.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from reasoning_gym.factory import DATASETS, create_dataset

ASK = "Give your final answer between <answer> and </answer>."


def rows(tasks: list[str], size: int, seed: int, config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """`size` rows of each task; the same arguments, the same rows."""
    for task in tasks:
        for entry in create_dataset(task, size=size, seed=seed, **config):
            yield entry_to_row(entry)


def entry_to_row(entry: dict[str, Any]) -> dict[str, Any]:
    asked = {"input": [{"role": "user", "content": f"{entry['question']}\n\n{ASK}"}]}
    entry = {key: entry.get(key) for key in ("question", "answer", "metadata")}
    return {"responses_create_params": asked, **entry}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", required=True, help="names with commas between, or all")
    parser.add_argument("--size", type=int, default=100, help="rows of each task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--config", type=json.loads, default={}, help="the tasks' own settings, as JSON")
    given = parser.parse_args()
    tasks = sorted(set(DATASETS) - {"composite"}) if given.task == "all" else given.task.split(",")
    unknown = sorted(set(tasks) - set(DATASETS))
    if unknown:
        parser.error(f"reasoning-gym has no task {', '.join(unknown)}")
    for row in rows(tasks, given.size, given.seed, given.config):
        sys.stdout.write(json.dumps(row, default=str) + "\n")


if __name__ == "__main__":
    main()

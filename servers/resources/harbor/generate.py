"""Rows of folders: `gym data from harbor FOLDER... -o rows.jsonl`. A folder is a task, or holds tasks.

Without one, rows of the tasks that are shipped.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson
from folders import CannotRun, check_names, find_folders, harbor_row, shown_tools
from terminal_bench import NOT_IN_IMAGES, dockerfile_of, terminal_bench_row

from gym.errors import UserError
from gym.wire.json_text import write_json

SHIPPED: Final = Path(__file__).parent / "data" / "tasks"
ANY: Final = "any"
SAFE: Final = re.compile(r"[^a-z0-9]+")
ABILITY: Final = {
    "licence": "as the folders say; the shipped ones are Apache 2.0",
    "difficulties": (ANY, "easy", "medium", "hard"),
    "splits": ("train",),
    "folders": True,
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Makes rows of task folders of Harbor and terminal-bench.")
    parser.add_argument("--count", "--rows", type=int, default=None, help="at most so many")
    parser.add_argument("--seed", type=int, default=0, help="means nothing here: the folders are the rows")
    parser.add_argument("--split", choices=ABILITY["splits"], default="train")
    parser.add_argument("--difficulty", choices=ABILITY["difficulties"], default=ANY)
    parser.add_argument("--task", action="append", default=[], metavar="FOLDER", help="a task, or a folder of tasks")
    parser.add_argument("--images", action="store_true", help="build the images now, by `docker build`")
    parser.add_argument("--leave-out", action="store_true", help="leave out tasks that are not supported")
    parser.add_argument("--describe", action="store_true", help="print what it can make, as JSON")
    asked = parser.parse_args(argv)
    if asked.describe:
        sys.stdout.buffer.write(orjson.dumps(ABILITY) + b"\n")
        return 0
    places = [Path(one) for one in asked.task] or [SHIPPED]
    try:
        rows = rows_of(places, images=asked.images, leave_out=asked.leave_out)
        wanted = (row for row in rows if asked.difficulty in (ANY, row["difficulty"]))
        for row in islice(wanted, asked.count):
            sys.stdout.buffer.write(write_json(row) + b"\n")
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def rows_of(places: list[Path], *, images: bool = False, leave_out: bool = False) -> Iterator[dict[str, Any]]:
    """In the order of the folders. What is not supported is said of all of them at once."""
    folders = [folder for place in places for folder in find_folders(place)]
    refused: list[str] = []
    made: list[dict[str, Any]] = []
    for folder in folders:
        try:
            made.append(row_of(folder, build_image(folder) if images else ""))
        except CannotRun as error:
            refused.append(str(error))
    if refused and not leave_out:
        what = "\n".join([*refused, f"{len(refused)} of {len(folders)} tasks cannot run here"])
        raise UserError(what, "rows of the others alone: -- --leave-out")
    return check_names(iter(made))


def row_of(folder: Path, image: str = "") -> dict[str, Any]:
    make = harbor_row if (folder / "task.toml").is_file() else terminal_bench_row
    return make(folder, shown_tools(), image)


def build_image(folder: Path) -> str:
    """Its name; the same folder is built once. The instance needs `images: [harbor-*]` in its `sandbox:`."""
    of_harbor = (folder / "task.toml").is_file()
    dockerfile = folder / "environment" / "Dockerfile" if of_harbor else dockerfile_of(folder)
    if not dockerfile.is_file():
        return ""  # its task.toml names an image
    left_out = () if of_harbor else (*NOT_IN_IMAGES, "tests")
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch) / "context"
        kept = [path for path in dockerfile.parent.iterdir() if path.name not in left_out]
        context.mkdir()
        for path in kept:
            (shutil.copytree if path.is_dir() else shutil.copy)(path, context / path.name)
        image = f"harbor-{SAFE.sub('-', folder.resolve().name.lower()).strip('-')}:{digest_of(context)}"
        argv = ["docker", "build", "-q", "-t", image, "-f", str(context / dockerfile.name), str(context)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"{folder}: `docker build` failed: {done.stderr.strip()[-600:]}")
    return image


def digest_of(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder)}\0{path.stat().st_mode:o}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    raise SystemExit(main())

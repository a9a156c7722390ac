"""Writes the rows of the five tasks in data/tasks: python make_rows.py shipped > data/example.jsonl"""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TASKS = HERE / "data" / "tasks"
SETUP = "make_repo.sh"
# The first two steps are the same for all five: one layer. The repository comes from a stage of its own, so that the
# fix lies in no layer of the image.
DOCKERFILE = """\
FROM python:3.13-slim AS tools
RUN apt-get update -q && apt-get install -y -q --no-install-recommends git python3-pytest && rm -rf /var/lib/apt/lists/*
FROM tools AS made
COPY . /context
RUN sh /context/make_repo.sh /testbed
FROM tools
COPY --from=made /testbed /testbed
WORKDIR /testbed
"""
INSTRUCTIONS = """\
The repository {repo} is checked out in the current directory. Resolve this issue:

<issue>
{problem}</issue>

Change the source, not the tests: hidden tests decide. Run the tests that are there with `python3 -m pytest -q`.
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    kinds.add_parser("shipped", help="the five tasks of data/tasks")
    parser.parse_args(arguments)
    for row in shipped_rows():
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    return 0


def shipped_rows() -> Iterator[dict[str, Any]]:
    for folder in sorted(path for path in TASKS.iterdir() if path.is_dir()):
        yield shipped_row(folder)


def shipped_row(folder: Path) -> dict[str, Any]:
    task = json.loads((folder / "task.json").read_text())
    files = {SETUP: (HERE / SETUP).read_text(), **read_tree(folder, ("repo", "fix", "hidden"))}
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "context").mkdir()
        write_tree(Path(scratch) / "context", files)
        repository = Path(scratch) / "testbed"
        run(["sh", f"{scratch}/context/{SETUP}", str(repository)], Path(scratch))
        base = run(["git", "rev-parse", "HEAD"], repository).strip()
        fixed = sorted(name.removeprefix("fix/") for name in files if name.startswith("fix/"))
        hidden = sorted(name.removeprefix("hidden/") for name in files if name.startswith("hidden/"))
        patch, test_patch = (diff(repository, base, names) for names in (fixed, hidden))
    problem = task["problem_statement"]
    return {
        "responses_create_params": {
            "input": [{"role": "user", "content": INSTRUCTIONS.format(repo=task["repo"], problem=problem)}],
            "tools": tools(),
        },
        "instance_id": f"{task['repo'].replace('/', '__')}-1",
        **task,
        "base_commit": base,
        "patch": patch,
        "test_patch": test_patch,
        "build": {"dockerfile": DOCKERFILE, "files": files},
        "setup_script": SETUP,
    }


def tools() -> list[dict[str, Any]]:
    """As the server's `GET /tools` has them, without the one that is mini-swe-agent's."""
    shown: list[dict[str, Any]] = json.loads((HERE / "data" / "tools.json").read_text())
    return shown


def read_tree(folder: Path, parts: tuple[str, ...] = ("",)) -> dict[str, Any]:
    """Path below `folder` -> its text, or base64 where it is none."""
    found = sorted(path for part in parts for path in (folder / part).rglob("*") if path.is_file())
    kept = [path for path in found if not {"__pycache__", ".pytest_cache"} & set(path.parts)]
    return {path.relative_to(folder).as_posix(): content(path.read_bytes()) for path in kept}


def content(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def write_tree(folder: Path, files: dict[str, Any]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else base64.b64decode(text["base64"]))


def diff(repository: Path, base: str, names: list[str]) -> str:
    return run(["git", "diff", "--binary", "--no-renames", base, "next", "--", *names], repository)


def run(argv: list[str], cwd: Path) -> str:
    return subprocess.run(argv, cwd=cwd, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    raise SystemExit(main())

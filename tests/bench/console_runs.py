"""What the pages Runs and Compare cost over long runs: `python -m tests.bench.console_runs [ROLLOUTS [REPEATS]]`.

Of each: CPU until it is whole, in how many answers, and the slowest; and of another page that is asked meanwhile.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import orjson
from starlette.testclient import TestClient

from gym.console.pages.shell import PageAccess, make_app
from gym.console.run_sections import make_run_sections
from gym.console.viewer.run_files import RunFiles
from tests.bench.console_index import memory
from tests.support.rollout_files import rollout

REPEATS = 8


PAGES = {
    "all runs": "/view/api/runs/list",
    "a run, first": "/view/api/runs/run?run=before",
    "a run, again": "/view/api/runs/run?run=before",
    "its tasks": "/view/api/runs/tasks?run=before",
    "its next tasks": "/view/api/runs/tasks?run=before&start=50",
    "a run, 100 more lines": "/view/api/runs/run?run=before",
    "compared, first": "/view/api/compare/runs?run=before&run=after",
    "compared, again": "/view/api/compare/runs?run=before&run=after",
}


def main(count: int, repeats: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("before", "after"):
            write(Path(folder, f"{name}.jsonl"), count, random.Random(name), repeats)
        files = RunFiles([Path(folder)])
        began = time.process_time()
        files.refresh(whole=True)
        say(f"{'read both':24}{1000 * (time.process_time() - began):8.0f} ms CPU")
        for first in (True, False):
            client = TestClient(make_app(make_run_sections(files), PageAccess()), base_url="http://localhost")
            with client, nullcontext() if first else beside(client):
                for name, path in PAGES.items():
                    if "more" in name:
                        write(Path(folder, "before.jsonl"), 100, random.Random(3), repeats, start=count + 100 * first)
                    ask_until_whole(client, name, path)
        files.close()
    say(f"memory: {memory()}")


def ask_until_whole(client: TestClient, name: str, path: str) -> None:
    walls, cpus = [], []
    whole = False
    while not whole:
        wall, cpu = time.perf_counter(), time.process_time()
        reply = client.get(path).json()
        walls.append(1000 * (time.perf_counter() - wall))
        cpus.append(1000 * (time.process_time() - cpu))
        whole = not reply.get("counting") and not any(one.get("pending") for one in reply.get("runs", ()))
    slowest = f"the slowest {max(cpus):5.0f} ms CPU, {max(walls):5.0f} ms"
    say(f"{name:24}{sum(cpus):8.0f} ms CPU in {len(walls):3} answers, {slowest}")


@contextmanager
def beside(client: TestClient) -> Iterator[None]:
    """Another page, asked all the time."""
    ended, walls = threading.Event(), array("d")

    def ask() -> None:
        while not ended.wait(0.05):
            began = time.perf_counter()
            assert client.get("/view/api/rollouts/list?count=20").status_code == 200
            walls.append(time.perf_counter() - began)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        ended.set()
        asking.join()
    say(f"{'a list asked meanwhile':24}{len(walls):22} answers, the slowest {1000 * max(walls):14.0f} ms")


def write(path: Path, count: int, chance: random.Random, repeats: int, start: int = 0) -> None:
    with path.open("ab") as stream:
        for each in range(start, start + count):
            task, repeat = divmod(each, repeats)
            row = rollout(task, repeat, round(chance.random(), 3), accuracy=chance.random(), style=chance.random())
            row["_gym"] |= {"key": f"{task + 1:016x}:{repeat}", "started": 1e9 + each, "hops": {"model": 200.0}}
            stream.write(orjson.dumps(row) + b"\n")


def say(text: str) -> None:
    print(text)  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000, int(sys.argv[2]) if len(sys.argv) > 2 else REPEATS)

"""How a large file of rollouts opens: cold, with its index, and how long a page of it takes; wall, CPU and memory.

    .venv/bin/python tests/bench/console_index.py [--mb 2048] [--rollouts 200000] [--scratch FOLDER]

The file is written first. Each figure comes from a process of its own, which asks the section as a browser does.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from starlette.testclient import TestClient

sys.path.insert(0, str(Path(__file__).parents[2]))

from gym.console.pages.shell import PageAccess, make_app
from gym.console.run_sections import make_run_sections
from gym.console.viewer.run_files import RunFiles

REPEATS = 8
API = "/view/api/rollouts"
PAGES = {
    "head": "summary",
    "list": "list",
    "list, far": "list?start={far}",
    "lowest reward": "list?sort=reward&low=0.1",
    "slowest": "list?sort=-seconds",
    "groups": "groups",
    "groups, far": "groups?start={far_group}",
    "groups, filtered": "groups?tool=search&component=style&least=0.5&kind=verified",
    "by agent": "list?agent=solver_1&truncated=1",
    "one task": "groups?task=77",
    "text, a moment": "list?text=needle",
}
COUNTED = {  # asked until they are whole
    "all runs": "runs/list",
    "a run": "runs/run?run=rollouts",
    "its tasks": "runs/tasks?run=rollouts",
}


def main() -> int:
    options = _options()
    if options.run:
        print(json.dumps(RUNS[options.run](Path(options.file))))
        return 0
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        path = Path(scratch) / "rollouts.jsonl"
        write_rollouts(path, options.rollouts, options.mb << 20)
        print(f"{path.stat().st_size / 1e9:.2f} GB, {options.rollouts} rollouts")
        for name in ("cold", "indexed"):
            print(f"{name}: {json.dumps(measure(name, path), indent=1)}")
    return 0


def measure(name: str, path: Path) -> dict[str, Any]:
    command = (sys.executable, __file__, "--run", name, "--file", str(path))
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def write_rollouts(path: Path, count: int, size: int) -> None:
    dice = random.Random(1)
    words = [f"word{each}" for each in range(2000)]
    padding = " ".join(dice.choices(words, k=4000))
    room = max(0, size // count - 1300)
    with path.open("wb", buffering=1 << 20) as stream:
        for each in range(count):
            stream.write(orjson.dumps(_row(each, dice, padding, room)) + b"\n")


def _row(each: int, dice: random.Random, padding: str, room: int) -> dict[str, Any]:
    task, repeat = divmod(each, REPEATS)
    begin = dice.randrange(1000)
    text = (padding[begin:] + padding)[: dice.randrange(room * 2 + 1)]
    tool = dice.choice(["search", "run", "read"])
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": f"I ponder {task}"}]},
        {"type": "function_call", "call_id": "c", "name": tool, "arguments": '{"query": "a"}'},
        {"type": "function_call_output", "call_id": "c", "output": text},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"The answer to {task}"}]},
    ]
    reward = float(dice.random() < task % 10 / 9)
    response = {"output": output, "model": "m", "usage": {"input_tokens": 5, "output_tokens": 9, "total_tokens": 14}}
    return {
        "responses_create_params": {"input": [{"role": "user", "content": f"Question {task} of {padding[:90]}?"}]},
        "agent_ref": {"type": "responses_api_agents", "name": f"solver_{task % 3}"},
        **{"_ng_task_index": task, "_ng_rollout_index": repeat},
        "response": response | ({"status": "incomplete"} if each % 50 == 0 else {}),
        **{"reward": reward, "style": dice.random(), "right": reward, "length": len(text)},
        "_gym": {
            **{"key": f"{task:016x}:{repeat}", "agent": f"solver_{task % 3}", "reward": reward, "attempt": 1},
            **{"started": 1.7e9 + each, "seconds": dice.random() * 9, "queued": 0.1},
            "hops": {"seed": 1.5, "model": 300.0, "tools": 20.0, "verify": 4.0},
        },
    }


def cold(path: Path) -> dict[str, Any]:
    """No index: the first page, pages while it is made, and the whole."""
    for old in path.parent.glob(".*.index"):
        old.unlink()
    files, client, opened = _open(path)
    pages: dict[str, list[str]] = {"rollouts/list": [], "runs/list": [], "runs/run?run=rollouts": []}
    began = time.perf_counter()
    while files.indexed() < 1:
        for name, walls in pages.items():
            walls.append(_timed(lambda name=name: client.get(f"/view/api/{name}"))[0])  # type: ignore[misc]
            time.sleep(0.05)
    return {
        "first page": opened,
        "slowest pages while indexing": {name: max(walls, default="") for name, walls in pages.items()},
        "indexing": _figures(began),
        "memory": memory(),
        "index": f"{sum(one.stat().st_size for one in path.parent.glob('.*.index')) / 1e6:.1f} MB",
    }


def indexed(path: Path) -> dict[str, Any]:
    files, client, opened = _open(path)
    count = len(files.files[0])
    pages = {}
    for name, query in PAGES.items():
        asked = query.format(far=count - 50, far_group=count // REPEATS - 10)
        pages[name] = [_timed(lambda asked=asked: client.get(f"{API}/{asked}"))[0] for _ in range(2)]  # type: ignore[misc]
    for name, asked in COUNTED.items():
        pages[f"{name}, the slowest"] = _until_whole(client, asked)
    whole, reply = _timed(lambda: _search(client))
    return {
        "first page": opened,
        "lines": count,
        "pages": pages,
        "whole search": f"{whole} ({reply} questions)",
        "memory": memory(),
    }


def _until_whole(client: TestClient, asked: str) -> list[str]:
    answers = []
    while True:
        took, reply = _timed(lambda: client.get(f"/view/api/{asked}").json())
        answers.append(took)
        if not reply.get("counting") and not any(one.get("pending") for one in reply.get("runs", ())):
            return [max(answers), f"{len(answers)} answers"]


def _search(client: TestClient) -> int:
    for question in range(10_000):
        if client.get(f"{API}/list?text=ponder+77&kind=verified").json()["searched"] == 1:
            return question + 1
    raise AssertionError("the search does not end")


def _open(path: Path) -> tuple[RunFiles, TestClient, dict[str, str]]:
    began, cpu = time.perf_counter(), time.process_time()
    files = RunFiles([path])
    client = TestClient(make_app(make_run_sections(files), PageAccess()), base_url="http://localhost")
    client.__enter__()
    assert client.get(f"{API}/list").json()["rows"]
    assert client.get("/view/rollouts").status_code == 200
    return files, client, {"wall": _ms(time.perf_counter() - began), "cpu": _ms(time.process_time() - cpu)}


def _timed(call: Callable[[], Any]) -> tuple[str, Any]:
    """Wall and CPU of the process; beside other work on the machine the wall says little."""
    began, cpu = time.perf_counter(), time.process_time()
    reply = call()
    return f"{_ms(time.perf_counter() - began)} wall {_ms(time.process_time() - cpu)} cpu", reply


def _figures(began: float) -> dict[str, str]:
    return {"wall": _ms(time.perf_counter() - began), "cpu of the process": _ms(time.process_time())}


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:7.0f} ms"


def memory() -> str:
    """By /proc: `ru_maxrss` begins with what the parent had when it started us."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    return f"{kilobytes / 1024:.0f} MB at most"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, default=2048)
    parser.add_argument("--rollouts", type=int, default=200_000)
    parser.add_argument("--scratch", default=None)
    parser.add_argument("--run", choices=RUNS, default="")
    parser.add_argument("--file", default="")
    return parser.parse_args()


RUNS = {"cold": cold, "indexed": indexed}

if __name__ == "__main__":
    sys.exit(main())

"""What docs/decisions.md says of small parts, each beside the alternative in the same run: CPU time, the least of
some rounds.

    PYTHONPATH=. .venv/bin/python tests/bench/decisions.py [keys splice routes settings lines forks clocks frames]

The two sides of a pair take turns, so that other work on the machine meets both. `frames` needs wsproto as well.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import json
import multiprocessing
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import orjson
from fastapi import FastAPI
from omegaconf import OmegaConf

from gym.collect.keys import DigestTable
from gym.config.interpolate import Resolver
from gym.config.nodes import Findings, plain
from gym.config.yaml_source import parse_yaml
from gym.http.websocket import BINARY, Decoder, encode
from gym.server.asgi import Answer, Call, HotRoutes
from gym.wire.json_text import repair_body
from gym.wire.splice import splice

ROUNDS = 5
ROLLOUT = {"reward": 1.0, "response": {"output": [{"type": "message", "text": "some words " * 40} for _ in range(400)]}}
MESSAGE = os.urandom(1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = {one.__name__: one for one in (keys, splice_fields, routes, settings, lines, forks, clocks, frames)}
    names = {name.removesuffix("_fields"): part for name, part in parts.items()}
    parser.add_argument("parts", nargs="*", help=", ".join(names))
    for name in parser.parse_args().parts or names:
        print(f"-- {name}")
        names[name]()


def compare(count: int, unit: str, sides: dict[str, Callable[[], Any]]) -> None:
    """Rounds in turn; the least CPU of each side, and its ratio to the first."""
    least = dict.fromkeys(sides, float("inf"))
    for _ in range(ROUNDS):
        for name, side in sides.items():
            began = _cpu()
            side()
            least[name] = min(least[name], _cpu() - began)
    base = next(iter(least.values()))
    for name, seconds in least.items():
        print(f"{name:44} {seconds / count * 1e6:12,.2f} us of CPU a {unit}   {seconds / base:7.2f}")


def _cpu() -> float:
    """Of this process and of its children that ended."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def keys() -> None:
    """Memory of a million keys, each side in a process of its own."""
    for name in ("table", "set"):
        command = [sys.executable, "-c", f"from tests.bench.decisions import grow; grow({name!r})"]
        print(f"{name:44} {subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()}")


def grow(name: str) -> None:
    found: Any = DigestTable() if name == "table" else set()
    random = Random(1)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    for _ in range(1_000_000):
        found.add(random.getrandbits(64))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{grown / 1024:6.1f} MiB, {time.process_time() - began:.2f} us of CPU a key")


def splice_fields() -> None:
    body, fields, times = orjson.dumps(ROLLOUT), {"rollout_id": "r-1", "agent_ref": {"name": "a"}}, 200
    print(f"a body of {len(body):,} bytes, two fields added")
    compare(
        times,
        "body",
        {
            "gym.wire.splice": lambda: [splice(body, fields, keys=ROLLOUT) for _ in range(times)],
            "orjson, there and back": lambda: [orjson.dumps({**orjson.loads(body), **fields}) for _ in range(times)],
            "json, there and back": lambda: [json.dumps({**json.loads(body), **fields}) for _ in range(times)],
        },
    )


def routes() -> None:
    """One POST of 4 KB through the ASGI app alone: no sockets."""
    body, times = orjson.dumps({"text": "x" * 4096}), 1000
    fast = FastAPI()

    @fast.post("/verify")
    async def verify(row: dict[str, Any]) -> dict[str, float]:
        return {"reward": float(len(row["text"]) > 1)}

    async def handle(call: Call) -> Answer:
        return Answer(orjson.dumps({"reward": float(len(orjson.loads(repair_body(call.body))["text"]) > 1)}))

    hot = HotRoutes(fast, "bench", "resources", {("POST", "/verify"): handle})
    sides: dict[str, Any] = {"HotRoutes": hot, "FastAPI": fast}
    compare(times, "request", {name: partial(_run, app, body, times) for name, app in sides.items()})


def _run(app: Any, body: bytes, times: int) -> None:
    asyncio.run(_ask(app, body, times))


async def _ask(app: Any, body: bytes, times: int) -> None:
    scope = {
        **{"type": "http", "method": "POST", "path": "/verify", "raw_path": b"/verify", "query_string": b""},
        **{"headers": [(b"content-type", b"application/json")], "http_version": "1.1", "scheme": "http"},
    }
    statuses: list[int] = []

    async def send(event: dict[str, Any]) -> None:
        statuses.extend([event["status"]] if event["type"] == "http.response.start" else [])

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    for _ in range(times):
        await app(dict(scope), receive, send)
    assert statuses == [200] * times


def settings() -> None:
    """A configuration of 200 servers with six references each; and what a first import costs, in fresh processes."""
    fields = "a: '${u}/v1', b: '${.a}', c: ['${s0.e}', '${u}'], d: '${oc.select:no,1}', e: 2, f: '${.e}'"
    text = "\n".join(["u: http://h", *(f"s{number}: {{{fields}}}" for number in range(200))])
    ours = plain(Resolver(parse_yaml(text, "x"), {}, Findings()).whole())
    assert ours == OmegaConf.to_container(OmegaConf.create(text), resolve=True)
    compare(
        1,
        "configuration",
        {
            "gym.config, YAML and references": lambda: Resolver(parse_yaml(text, "x"), {}, Findings()).whole(),
            "OmegaConf, YAML and references": lambda: OmegaConf.to_container(OmegaConf.create(text), resolve=True),
        },
    )
    compare(1, "import", {f"import {one}": partial(_python, f"import {one}") for one in ("gym.config", "omegaconf")})


def _python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def lines() -> None:
    """Rollouts of 48 KB to the disk, one sync for each hundred."""
    row, times = orjson.dumps({"text": "some words " * 4300, "id": 1}), 500
    with tempfile.TemporaryDirectory() as folder:
        number = iter(range(1000))
        compare(
            times,
            "rollout",
            {
                "lines, fdatasync": lambda: _write_lines(Path(folder) / f"{next(number)}.jsonl", row, times),
                "sqlite, WAL, commit": lambda: _write_table(Path(folder) / f"{next(number)}.db", row, times),
            },
        )


def _write_lines(path: Path, row: bytes, times: int) -> None:
    with path.open("ab", buffering=0) as file:
        for _ in range(times // 100):
            file.write((row + b"\n") * 100)
            os.fdatasync(file.fileno())
    path.unlink()


def _write_table(path: Path, row: bytes, times: int) -> None:
    with sqlite3.connect(path) as base:
        base.execute("pragma journal_mode = wal")
        base.execute("create table rollouts (key text primary key, body blob)")
        for number in range(times):
            base.execute("insert into rollouts values (?, ?)", (str(number), row))
            if number % 100 == 99:
                base.commit()
    base.close()


def forks() -> None:
    """A new worker of a process that has FastAPI and pydantic loaded: forked from it, or started by itself."""
    times = 3
    compare(
        times,
        "worker",
        {
            "forked from a process that has it": lambda: _repeat(times, _fork),
            "a Python of its own": lambda: _repeat(times, partial(_python, "import fastapi, pydantic, orjson")),
        },
    )


def _repeat(times: int, call: Callable[[], None]) -> None:
    for _ in range(times):
        call()


def _fork() -> None:
    if not (child := os.fork()):
        os._exit(0)
    os.waitpid(child, 0)


def clocks() -> None:
    """The same work, twelve at once on two cores or however many there are: how far CPU and wall time spread."""
    with multiprocessing.get_context("fork").Pool(12) as pool:
        alone = pool.map(timed_work, range(1))[0]
        crowd = pool.map(timed_work, range(48), chunksize=1)
    for place, name in enumerate(("CPU time", "wall time")):
        print(f"{name:44} {max(one[place] for one in crowd) / alone[place]:6.2f} times that of one alone, at worst")


def timed_work(_: int) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    for number in range(3_000_000):
        _ = number * number
    return time.process_time() - cpu, time.perf_counter() - wall


def frames() -> None:
    """A masked message of 1 KB, as a terminal's keyboard sends it, written and read."""
    times = 1000
    sides: dict[str, Callable[[], Any]] = {"gym.http.websocket": lambda: _own_frames(times)}
    if importlib.util.find_spec("wsproto"):
        sides["wsproto"] = lambda: _wsproto_frames(times)
    else:
        print("wsproto is not installed: .venv/bin/uv pip install wsproto")
    compare(times, "message", sides)


def _own_frames(times: int) -> None:
    decoder = Decoder(masked=True)
    for _ in range(times):
        assert [one.data for one in decoder.feed(encode(BINARY, MESSAGE, masked=True))] == [MESSAGE]


def _wsproto_frames(times: int) -> None:
    connection: Any = importlib.import_module("wsproto.connection")
    events: Any = importlib.import_module("wsproto.events")
    kinds = connection.ConnectionType
    client, server = connection.Connection(kinds.CLIENT), connection.Connection(kinds.SERVER)
    for _ in range(times):
        server.receive_data(client.send(events.BytesMessage(MESSAGE)))
        assert [bytes(one.data) for one in server.events()] == [MESSAGE]


if __name__ == "__main__":
    main()

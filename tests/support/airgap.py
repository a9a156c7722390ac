"""A machine without network, with an engine of its own: `unshare --net python -m tests.support.airgap FILE FOLDER`.

Loads a saved stack, starts it, collects while the engine is restarted, takes it down, and prints what it saw as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from gym.collect import AttemptOptions, collect
from gym.plan import RouterPlan
from gym.runtime.compose import ComposeRuntime, engine_answers, load_stack_file
from gym.runtime.status import StackStatus

OPTIONS = AttemptOptions(concurrency=8, timeout=60, max_attempts=20, backoff=0.5)


class Engine:
    """A dockerd whose every file is below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = f"unix://{folder}/s"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        places = [f"--{flag}={self.folder}/{flag}" for flag in ("data-root", "exec-root", "pidfile")]
        pool = "--default-address-pool=base=10.77.0.0/16,size=26"
        argv = ["dockerd", *places, f"--host={self.host}", "--config-file=/dev/null", pool]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log)
        deadline = time.monotonic() + 120
        while engine_answers() is None:
            assert time.monotonic() < deadline, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None


async def collect_over_a_restart(status: StackStatus, rows: list[dict[str, Any]], engine: Engine) -> Counter[str]:
    async def restart() -> None:
        await asyncio.to_thread(engine.stop)
        await asyncio.to_thread(engine.start)

    ends: Counter[str] = Counter()
    keys: set[str] = set()
    restarting: asyncio.Task[None] | None = None
    async for rollout in collect(status.router, rows, repeats=10, options=OPTIONS):
        assert rollout.key not in keys
        keys.add(rollout.key)
        ends[str(rollout.failure.kind) if rollout.failure else str(rollout.reward)] += 1
        if restarting is None:
            restarting = asyncio.ensure_future(restart())
    assert restarting is not None
    await restarting
    return ends


def wait_for_states(runtime: ComposeRuntime, home: Path) -> list[str]:
    """Of all replicas; those that came last with the engine may still be starting when the collection is over."""
    deadline = time.monotonic() + 120
    while True:
        status = runtime.status(home)
        states = sorted({str(one.state) for one in status.replicas}) if status else []
        if states == ["healthy"] or time.monotonic() > deadline:
            return states
        time.sleep(0.2)


def main(file: Path, rows: Path, folder: Path) -> int:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    engine = Engine(folder)
    os.environ["DOCKER_HOST"] = engine.host
    home = folder / ".gym" / "demo"
    runtime = ComposeRuntime(cache=folder / "cache")
    try:
        engine.start()
        load_stack_file(file, home)
        status = runtime.start(home, {}, lambda _: None, timeout=120, router=RouterPlan(port=0))
        examples = [json.loads(line) for line in rows.read_text().splitlines()]
        ends = asyncio.run(collect_over_a_restart(status, examples, engine))
        states = wait_for_states(runtime, home)
        sys.stdout.write(json.dumps({"ends": ends, "states": states, "down": runtime.down(home)}))
    finally:
        engine.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])))

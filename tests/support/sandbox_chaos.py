"""A local stack whose rewards are known before, made by sandboxes, and what kills its processes while it works."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gym import labels
from gym.engine import connect, engine_host
from gym.errors import GymError
from gym.files import write_atomically
from gym.plan import SANDBOX
from gym.runtime.identity import is_alive
from gym.runtime.local import LocalRuntime
from gym.runtime.local.home import Home
from gym.runtime.local.pid_file import read_record
from gym.runtime.status import ReplicaStatus
from gym.wire.stack_names import project_name
from tests.support.docker import write_server

IMAGE = "python:3.13-slim"
TIMEOUT = 300.0
GONE_SECONDS = 60.0  # what is promised
ALLOWED = "allowed"
REPLICAS = {"broker": SANDBOX, "server": "sums-1"}
VICTIMS = (*REPLICAS, "collector")
SUMS = """
import asyncio
from pathlib import Path

from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.sandbox.sandbox_defaults import delete_on_error
from gym.server import ResourcesServer, Row, VerifyRequest

ALLOWED = Path("FOLDER", "ALLOWED")


class Sum(VerifyRequest):
    number: int
    a: int
    b: int
    stated: int


class Sums(ResourcesServer[Sandbox]):
    async def start(self) -> None:
        self.sandboxes = Sandboxes.from_settings(self.settings)
        await self.sandboxes.begin()

    async def stop(self) -> None:
        await self.sandboxes.aclose()

    async def seed(self, row: Row) -> Sandbox:
        sandbox = await self.sandboxes.create({"image": "IMAGE_NAME"})
        async with delete_on_error(sandbox):
            await sandbox.put("/tmp/seeded", b"yes")
        return sandbox

    async def verify(self, rollout: Sum, state: Sandbox) -> float:
        while ALLOWED.is_file() and rollout.number >= int(ALLOWED.read_text()):
            await asyncio.sleep(0.05)
        line = f"sleep 0.2; [ $(cat /tmp/seeded) = yes ] && [ $(({rollout.a} + {rollout.b})) = {rollout.stated} ]"
        return float((await state.exec(line, timeout=120)).ok)

    async def close(self, state: Sandbox) -> None:
        await state.delete()


app = Sums.app()
"""
AGENT = """
sums_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: sums}
      model_server: {type: responses_api_models, name: policy_model}
"""


@dataclass
class Seen:
    """What a collection under fire came to."""

    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    rewarded: int = 0
    failed: int = 0  # reported as failures, which a later resume retries
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    continued: list[float] = field(default_factory=list)  # seconds after a restart of the engine until the next rollout

    @property
    def honest(self) -> bool:
        return not (self.lost or self.doubled or self.wrong)


def no_engine() -> None:
    raise RuntimeError("this engine is not ours to restart")


class Chaos:
    """`rows` sums, half of them with a wrong answer; the reward of each is known."""

    def __init__(self, folder: Path, rows: int, chance: random.Random) -> None:
        self.folder = folder
        self.home = folder / ".gym" / "gym"
        self.chance = chance
        self.output = folder / "sums.jsonl"
        self.failures = folder / "sums_failures.jsonl"
        self.rows = folder / "rows.jsonl"
        self.expected = {number: float(number % 2 == 0) for number in range(rows)}
        self._runtime = LocalRuntime()
        write_sums(folder)
        self.rows.write_text("".join(json.dumps(make_row(number)) + "\n" for number in range(rows)))

    def gym(self, *words: str) -> subprocess.Popen[bytes]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("GYM_", "NEMO_GYM_"))}
        with (self.folder / "gym.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "gym", *words], cwd=self.folder, env=kept, stdout=log, stderr=log
            )

    def up(self) -> None:
        words = ("up", "sums", "--model", "scripted", "--runtime", "local", "--port", "0")
        if self.gym(*words, "--sandbox-provider", "docker").wait(TIMEOUT):
            raise RuntimeError((self.folder / "gym.log").read_text("utf-8")[-3000:])

    def down(self) -> int:
        return self.gym("down").wait(TIMEOUT)

    def collect(self) -> subprocess.Popen[bytes]:
        how = ("--concurrency", "8", "--max-attempts", "8", "--timeout", "60")
        return self.gym("rollouts", str(self.rows), "-o", str(self.output), "--agent", "sums_agent", *how)

    def replica(self, name: str) -> ReplicaStatus | None:
        found = self._runtime.status(self.home)
        return next((one for one in found.replicas if one.replica == name), None) if found else None

    def kill(self, name: str) -> None:
        """And wait until there is another in its place: the supervisor's, or after a while one that is asked for."""
        one = self.replica(name)
        if one is None or one.pid is None:
            return
        os.kill(one.pid, signal.SIGKILL)
        began = time.monotonic()
        while (now := self.replica(name)) is None or now.pid in (None, one.pid) or now.state != "healthy":
            waited = time.monotonic() - began
            assert waited < TIMEOUT, f"{name} has not come back: {now}"
            if waited > 3.0 and (now is None or now.pid is None):
                with contextlib.suppress(GymError):
                    self._runtime.restart(self.home, (name,), lambda _: None, timeout=TIMEOUT)
            time.sleep(0.05)

    def kill_all(self) -> None:
        """The whole stack at once, its supervisor too: nothing is left to clear up."""
        record = read_record(Home(self.home.resolve()))
        assert record is not None
        os.kill(record.supervisor.pid, signal.SIGSTOP)  # else it may start another warden in between
        owners = [one for one in (record.warden, record.supervisor) if one is not None]
        for one in (*owners, *record.processes.values()):
            if is_alive(one):
                os.kill(one.pid, signal.SIGKILL)

    def allow(self, count: int) -> None:
        """Rows from this number on wait in their sandboxes: a collection is under way for as long as it has to be."""
        write_atomically(self.folder / ALLOWED, str(count))

    def fire(
        self, kills: int, victims: Sequence[str] = VICTIMS, restart_engine: Callable[[], None] = no_engine
    ) -> Seen:
        """Collects to the end while one victim after the other dies: by how far it has come, so each finds work."""
        seen = Seen()
        steps = [math.ceil(len(self.expected) * (done + 1) / (1.5 * kills)) for done in range(kills)]
        while True:
            self.allow(steps[seen.kills.total()] if seen.kills.total() < kills else len(self.expected))
            process = self.collect()
            seen.starts += 1
            while process.poll() is None and seen.kills.total() < kills:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(self.chance.uniform(0.02, 0.2))
                    break
                if self.done < steps[seen.kills.total()]:
                    continue
                victim = victims[seen.kills.total() % len(victims)]
                if victim == "collector":
                    process.kill()
                elif victim == "engine":
                    restart_engine()
                else:
                    self.kill(REPLICAS[victim])
                seen.kills[victim] += 1
                self.allow(steps[seen.kills.total()] if seen.kills.total() < kills else len(self.expected))
                if victim == "engine":
                    seen.continued.append(self._seconds_until_more(process))
            code = process.wait(TIMEOUT)
            if code == 0 and not read_lines(self.failures):
                return self.judge(seen)
            assert seen.starts < 10 * (kills + 5), "the collection does not come to an end"

    def _seconds_until_more(self, process: subprocess.Popen[bytes]) -> float:
        began, before = time.monotonic(), self.done
        while self.done <= before and process.poll() is None:
            time.sleep(0.05)
        return time.monotonic() - began

    @property
    def done(self) -> int:
        return self.output.read_bytes().count(b"\n") if self.output.exists() else 0

    def start_load(self) -> subprocess.Popen[bytes]:
        """Another collection, from the moment that sandboxes work for it."""
        for path in self.folder.glob("sums*.json*"):
            path.unlink()
        process = self.collect()
        began = time.monotonic()
        while len(self.labelled()) < 4:  # more than wait in the pool
            assert process.poll() is None, "the load ended"
            assert time.monotonic() - began < TIMEOUT, "the load did not begin"
            time.sleep(0.05)
        return process

    def judge(self, seen: Seen) -> Seen:
        found = Counter(line["number"] for line in read_lines(self.output))
        rewards = [(line["number"], line["reward"]) for line in read_lines(self.output)]
        failures = {line["row"]["number"] for line in read_lines(self.failures)}
        seen.rewarded, seen.failed = len(found), len(failures - found.keys())
        seen.doubled = sum(count - 1 for count in found.values())
        seen.wrong = sum(self.expected[number] != reward for number, reward in rewards)
        seen.lost = len(self.expected.keys() - found.keys() - failures)
        return seen

    @property
    def label(self) -> str:
        return f"{labels.STACK}={project_name('gym', self.home.resolve())}"

    def labelled(self) -> list[str]:
        """Whatever on the engine carries this stack's label."""
        wanted = {"label": self.label}
        with connect(engine_host()) as client:
            names = [str(one["Names"][0]) for one in client.api.containers(all=True, filters=wanted)]
            names += [str(one["Name"]) for one in client.api.networks(filters=wanted)]
            names += [str(one["Name"]) for one in client.api.volumes(filters=wanted)["Volumes"] or []]
            return names + [str(one["RepoTags"]) for one in client.api.images(filters=wanted)]

    def seconds_until_clear(self, limit: float = GONE_SECONDS) -> float:
        """How long the engine still held something of this stack; `limit` where it still does."""
        began = time.monotonic()
        while self.labelled():
            if time.monotonic() - began > limit:
                return limit
            time.sleep(0.25)
        return time.monotonic() - began


@contextlib.contextmanager
def chaos(folder: Path, rows: int, seed: int = 5) -> Iterator[Chaos]:
    """A stack that runs, and is gone at the end."""
    one = Chaos(folder, rows, random.Random(seed))
    try:
        one.up()
        yield one
    finally:
        one.down()


def write_sums(folder: Path, disk: int | None = None) -> None:
    """`disk` limits what a sandbox may write; such ones come from no pool."""
    grant = f"        domain: coding\n        sandbox: {{images: ['{IMAGE}'], warm: 2}}\n"
    code = SUMS.replace("IMAGE_NAME", IMAGE).replace('"FOLDER", "ALLOWED"', repr(str(folder / ALLOWED)))
    if disk is not None:
        code = code.replace(f'"{IMAGE}"}})', f'"{IMAGE}", "limits": {{"disk": {disk}}}}})')
    server = write_server(folder, "sums", code, config=grant)
    config = server / "configs" / "sums.yaml"
    config.write_text(config.read_text() + AGENT)


def make_row(number: int) -> dict[str, Any]:
    right = number + 2 * number
    params = {"input": [{"role": "user", "content": f"Sum {number}."}]}
    stated = right if number % 2 == 0 else right + 1
    return {"responses_create_params": params, "number": number, "a": number, "b": 2 * number, "stated": stated}


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []

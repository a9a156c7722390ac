"""The harbor server as a process of its own, and a task for it that is written while the test runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from gym.server.testing import Caller
from gym.wire.sandbox import Grant
from tests.support.sandbox_broker import BrokerProcess, broker_process
from tests.support.swe import ROOT, Process, answer, server

HARBOR = ROOT / "servers" / "resources" / "harbor"
GRANT = Grant(images=("python:3.13-slim", "host"), build=True, warm=0, max_memory=4 << 30)
HELLO = {
    "task.toml": 'version = "1.0"\n{more}\n[verifier]\ntimeout_sec = 60.0\n[environment]\nallow_internet = false\n',
    "instruction.md": "Write 42 to /app/answer.txt",
    "environment/Dockerfile": "FROM python:3.13-slim\nWORKDIR /app\n",
    "tests/test.sh": 'if [ "$(cat /app/answer.txt)" = 42 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n',
}
FORGED = "mkdir -p /logs/verifier && echo '{\"reward\": 1}' > /logs/verifier/reward.json"
# It answers only beside the verifier's own tests: an answer in the agent's sandbox counts, if only for a moment.
DAEMON = (
    "(while true; do mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; "
    "if grep -qs answer.txt /tests/test.sh; then echo 42 > /app/answer.txt; fi; sleep 0.01; done) > /dev/null 2>&1 &"
)
LEAVE_DAEMON = (
    f"mkdir -p /tests; nohup sh -c '{DAEMON}' > /dev/null 2>&1 & "
    "until [ -s /logs/verifier/reward.txt ]; do sleep 0.01; done"
)


@contextmanager
def harbor_on(folder: Path, provider: str) -> Iterator[tuple[BrokerProcess, Process]]:
    with (
        broker_process(folder, provider, grant=GRANT) as broker,
        server(HARBOR, folder / "harbor.log", {"places": {"memory": "1g"}}, name="harbor", broker=broker) as running,
    ):
        yield broker, running


def hello(folder: Path, more: str = "") -> dict[str, Any]:
    for path, text in HELLO.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text.replace("{more}", more))
    argv = [sys.executable, str(HARBOR / "generate.py"), "--task", str(folder)]
    made: dict[str, Any] = json.loads(subprocess.run(argv, check=True, capture_output=True).stdout)
    return made


@asynccontextmanager
async def at_work(
    harbor: Process, task: dict[str, Any], *commands: str
) -> AsyncIterator[tuple[Caller, dict[str, Any]]]:
    """A session in which the commands were typed; its sandbox's handle."""
    async with Caller(harbor.url) as caller:
        seeded = await caller.post("/seed_session", task)
        assert seeded.status == 200, seeded.body
        for command in commands:
            reply = await caller.post("/bash", {"command": command})
            assert reply.status == 200, reply.body
        yield caller, seeded.body["sandbox_handle"]
        await caller.post("/close_session")


async def judged(harbor: Process, task: dict[str, Any], *commands: str) -> dict[str, Any]:
    async with at_work(harbor, task, *commands) as (caller, _):
        reply = await caller.post("/verify", {**task, "response": answer()})
        assert reply.status == 200, reply.body
        body: dict[str, Any] = reply.body
        return body

"""Servers of software engineering tasks as processes of their own, and what one types to solve a task."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gym.server.testing import Caller
from gym.wire.sandbox import Grant
from tests.support.sandbox_broker import TOKEN, BrokerProcess, Running, listening_socket

ROOT = Path(__file__).parents[2]
SWE = ROOT / "servers" / "resources" / "swe"
GRANT = Grant(images=("python:3.13-slim", "host"), build=True, warm=0, max_memory=4 << 30)
TYPES = {"resources": "resources_servers", "agents": "responses_api_agents", "models": "responses_api_models"}


class Process(NamedTuple):
    url: str
    folder: Path

    @property
    def address(self) -> dict[str, Any]:
        parts = urlsplit(self.url)
        return {"host": parts.hostname, "port": parts.port}


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SWE / "data" / "example.jsonl").read_text().splitlines()]


def row(name: str) -> dict[str, Any]:
    return next(one for one in rows() if name in one["instance_id"])


def answer(text: str = "") -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"output": [{"type": "message", "role": "assistant", "content": content}]}


def fields_for(provider: str) -> dict[str, Any]:
    """Where there are no images, the host's own interpreter runs the tests."""
    common: dict[str, Any] = {"places": {"memory": "1g"}, "eval_timeout": 120}
    return common if provider == "docker" else {**common, "plain_image": "host", "python": sys.executable}


@contextmanager
def server(
    folder: Path,
    log: Path,
    fields: Mapping[str, Any],
    *,
    name: str,
    document: Mapping[str, Any] | None = None,
    broker: BrokerProcess | Running | None = None,
    python: str = sys.executable,
    token: str = TOKEN,
) -> Iterator[Process]:
    """`python -m gym.server.serve app.py`, healthy; ended at the end."""
    listener = listening_socket()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    block = {TYPES[folder.parent.name]: {folder.name: dict(fields)}}
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(log.parent),
        "PYTHONPATH": str(ROOT),
        "NEMO_GYM_CONFIG_DICT": json.dumps({**(document or {}), name: block}),
        "NEMO_GYM_CONFIG_PATH": name,
        "GYM_LISTEN": f"fd:{listener.fileno()}",
        "GYM_DRAIN_SECONDS": "5",
    }
    if broker is not None:
        environ |= {"GYM_SANDBOX_URL": broker.url, "GYM_SANDBOX_TOKEN": token}
    with log.open("ab") as file:
        process = subprocess.Popen(
            [python, "-m", "gym.server.serve", "app.py"],
            cwd=folder,
            env=environ,
            pass_fds=[listener.fileno()],
            stdout=file,
            stderr=file,
        )
    listener.close()
    try:
        wait_healthy(process, url, log)
        yield Process(url, folder)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


@asynccontextmanager
async def session(swe: Process, task: dict[str, Any]) -> AsyncIterator[tuple[Caller, str]]:
    """Of one rollout: who calls its tools, and its sandbox."""
    async with Caller(swe.url) as caller:
        seeded = await caller.post("/seed_session", task)
        assert seeded.status == 200, seeded.body
        yield caller, seeded.body["sandbox_handle"]["id"]
        await caller.post("/close_session")


def wait_healthy(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    ends = time.monotonic() + 120
    while time.monotonic() < ends:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(f"{url}/healthz", timeout=5) as reply:
                if reply.status == 200:
                    return
        except OSError:
            time.sleep(0.05)
    raise AssertionError(log.read_text()[-3000:])


def solution(task: Mapping[str, Any]) -> list[str]:
    """What an agent types to put the gold patch in."""
    return [
        f"cat > /tmp/fix.patch <<'EOF_OF_PATCH'\n{task['patch']}EOF_OF_PATCH",
        "git apply /tmp/fix.patch",
        "git status --short",
    ]


def commands_for(files: Mapping[str, str]) -> Sequence[str]:
    return [
        f"mkdir -p \"$(dirname '{path}')\" && cat > '{path}' <<'EOF_OF_FILE'\n{text}\nEOF_OF_FILE"
        for path, text in files.items()
    ]

"""Small stacks of real processes for tests of the local runtime: folders with servers in them, plans, calls."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gym.plan.model import Plan, RouterPlan, Service
from gym.runtime.identity import Identity, identify, is_alive
from gym.runtime.local import LocalRuntime
from gym.runtime.local.home import Home
from gym.runtime.local.pid_file import read_record
from gym.runtime.status import ReplicaStatus, StackStatus

TIMEOUT = 120.0

SDK_APP = """
import asyncio, json, os, subprocess, sys
from gym.server.config import read_settings

fields = read_settings(os.environ).fields
if fields.get("child"):
    child = subprocess.Popen(["sleep", "1000"])
if fields.get("crash"):
    print("the last words of a crash", flush=True)
    sys.exit(3)

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            if fields.get("stubborn") and message["type"] == "lifespan.shutdown":
                await asyncio.sleep(1000)
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    path = scope["path"]
    if path == "/say":
        print(scope["query_string"].decode(), flush=True)
    if path == "/slow":
        await asyncio.sleep(0.3)
    if path == "/exit":
        os._exit(7)
    seen = {"pid": os.getpid(), "fields": fields, "replica": os.environ["GYM_REPLICA"], "cwd": os.getcwd()}
    seen["child"] = child.pid if fields.get("child") else None
    unhealthy = path == "/healthz" and (fields.get("unhealthy") or os.path.exists(fields.get("unhealthy_while", "")))
    await send({"type": "http.response.start", "status": 503 if unhealthy else 200, "headers": []})
    await send({"type": "http.response.body", "body": json.dumps(seen).encode()})
"""

SCRIPT_APP = """
import json, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

config = json.loads(os.environ["NEMO_GYM_CONFIG_DICT"])
name = os.environ["NEMO_GYM_CONFIG_PATH"]
(block,) = config[name].values()
(fields,) = block.values()

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        status = 404 if self.path == "/" else 200
        body = json.dumps({"pid": os.getpid(), "config": config, "prefix": __import__("sys").prefix}).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

ThreadingHTTPServer((fields["host"], fields["port"]), Handler).serve_forever()
"""


def make_service(
    folder: Path, name: str, *, script: bool = False, needs: tuple[str, ...] = (), replicas: int = 1, **fields: Any
) -> Service:
    """An instance whose folder holds a server that answers anything with what it knows of itself."""
    source = SCRIPT_APP if script else SDK_APP
    directory = folder / "servers" / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "app.py").write_text(source)
    digest = hashlib.sha256(json.dumps([source, fields], sort_keys=True).encode()).hexdigest()
    return Service(
        name=name,
        slug=name.replace("_", "-"),
        type="resources_servers",
        implementation="test",
        launch="script" if script else "sdk",
        directory=directory,
        fields=fields,
        needs=needs,
        replicas=replicas,
        digest=digest,
    )


def make_stack(*services: Service, port: int = 0, drain_seconds: float = 5.0, **settings: Any) -> Plan:
    router = RouterPlan(port=port)
    return Plan(stack="test", services=services, router=router, settings=settings, drain_seconds=drain_seconds)


def start(home: Path, plan: Plan, *, timeout: float = TIMEOUT, secrets: dict[str, str] | None = None) -> StackStatus:
    runtime = LocalRuntime()
    return runtime.up(home, runtime.prepare(home, plan, secrets or {}), lambda status: None, timeout=timeout)


def replica(status: StackStatus | None, name: str) -> ReplicaStatus:
    assert status is not None
    return next(one for one in status.replicas if one.replica == name)


def pids(status: StackStatus) -> dict[str, int | None]:
    return {one.replica: one.pid for one in status.replicas}


def call(url: str, path: str = "/", *, timeout: float = 60.0) -> dict[str, Any]:
    """One request on a connection of its own."""
    where = urlsplit(url)
    assert where.hostname is not None
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=timeout)
    try:
        connection.request("GET", where.path + path)
        body = connection.getresponse().read()
    finally:
        connection.close()
    answer: dict[str, Any] = json.loads(body)
    return answer


def answers(url: str, name: str) -> bool:
    """This replica does, and no other in its place: a router's own words are not an answer."""
    try:
        return str(call(url)["replica"]) == name
    except (OSError, LookupError, ValueError):
        return False


def files_below(folder: Path) -> dict[Path, bytes]:
    """What a stack that runs has written. A file that is being replaced is gone before it can be read, and another."""
    found: dict[Path, bytes] = {}
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file():
                found[path] = path.read_bytes()
    return found


def until(condition: Callable[[], bool], *, within: float = TIMEOUT) -> None:
    """Poll; a condition that does not come true in time fails the test."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


def recorded(home: Path) -> list[Identity]:
    """Everything the stack has running, its supervisor first."""
    record = read_record(Home(home))
    return [record.supervisor, *record.processes.values()] if record else []


def kill_owners(home: Path) -> None:
    """The supervisor and its warden, at once: nothing carries on."""
    record = read_record(Home(home))
    assert record is not None
    assert record.warden is not None
    os.kill(record.supervisor.pid, signal.SIGSTOP)  # else it may start another warden in between
    for one in (record.warden, record.supervisor):
        os.kill(one.pid, signal.SIGKILL)
    until(lambda: not is_alive(record.supervisor))


def all_gone(identities: list[Identity]) -> bool:
    return not any(is_alive(one) for one in identities)


def identity_of(pid: int | None) -> Identity:
    found = identify(pid) if pid else None
    assert found is not None
    return found

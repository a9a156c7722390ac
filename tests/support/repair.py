"""Stacks that are broken on purpose, and a look at whether they serve again without a command."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from gym.runtime.compose.converge import containers_of
from gym.runtime.compose.layout import Layout
from gym.runtime.status import StackStatus
from tests.support.docker import Stand, call, engine_client, eventually

TIMEOUT = 180.0
log = logging.getLogger(__name__)
SERVER = """
from gym.server import ResourcesServer, tool

class Echo(ResourcesServer):
    @tool
    async def version(self) -> dict[str, str]:
        \"\"\"Which one am I?\"\"\"
        return {"version": "VERSION"}

    async def verify(self, rollout) -> float:
        return 1.0

app = Echo.app()
"""
COMMAND = """
import json, os, sys
from pathlib import Path
from tests.support.docker import Stand
cwd, verb, words, counts, files = json.loads(sys.argv[1])
stand = Stand(Path(cwd), overrides=tuple(Path(one) for one in files))
if verb == "up":
    stand.up(*words, replicas=counts)
elif verb == "restart":
    stand.runtime.restart(stand.home, tuple(words), stand.seen.append, timeout=180)
else:
    stand.runtime.scale(stand.home, counts, stand.seen.append, timeout=180)
"""


def begin(
    stand: Stand, verb: str, *words: str, replicas: dict[str, int] | None = None, files: Iterable[Path] = ()
) -> subprocess.Popen[bytes]:
    """A command of its own, in a process group of its own, that a test may end as it likes."""
    given = json.dumps([str(stand.cwd), verb, words, replicas or {}, [str(one) for one in files]])
    log = (stand.cwd / "command.log").open("ab")
    with log:
        return subprocess.Popen([sys.executable, "-c", COMMAND, given], stdout=log, stderr=log, start_new_session=True)


def wait_for_retirement(stand: Stand, process: subprocess.Popen[bytes], name: str) -> None:
    """Until a replica of this instance is out of the routes that everybody reads, by the command's own doing."""
    layout = stand.layout
    usual = routed(layout, name)

    def is_out() -> bool:
        assert process.poll() is None, "the command ended before it took anybody out of the routes"
        return len(routed(layout, name)) < len(usual)

    eventually(is_out, bool, seconds=TIMEOUT)


def routed(layout: Layout, name: str) -> set[str]:
    found = layout.read_discovery()
    return {one.url for one in found.instances[name].replicas} if found and name in found.instances else set()


def healthy_replicas(layout: Layout, name: str) -> int:
    found = layout.read_discovery()
    instance = found.instances.get(name) if found else None
    return sum(one.healthy for one in instance.replicas) if instance else 0


def answers(status: StackStatus, name: str) -> bool:
    try:
        return call(status, "GET", f"/s/{name}/healthz")[0] == 200
    except OSError:
        return False


def until_served(stand: Stand, status: StackStatus, names: Iterable[str]) -> None:
    """Until every server knows a healthy replica of each, and the router passes on to it."""
    wanted = tuple(names)
    try:
        until(lambda: all(healthy_replicas(stand.layout, one) and answers(status, one) for one in wanted))
    except AssertionError:
        raise AssertionError(describe(stand, status, wanted)) from None


def describe(stand: Stand, status: StackStatus, names: Iterable[str]) -> str:
    """What a person would look at first in a stack that does not serve."""
    with engine_client() as client:
        containers = containers_of(client, stand.layout)
        ends = [(one.name, client.api.logs(one.id, tail=5).decode(errors="replace")) for one in containers]
    lines = [f"not served again: {[(one, healthy_replicas(stand.layout, one), answers(status, one)) for one in names]}"]
    lines += [f"{one.name}: {one.state} {one.health} {one.image}" for one in containers]
    lines += [f"{name} said: {words}" for name, words in ends]
    command = stand.cwd / "command.log"
    return "\n".join([*lines, f"the command said: {command.read_text()[-2000:] if command.exists() else ''}"])


def until(condition: Callable[[], bool]) -> None:
    began = time.monotonic()
    eventually(condition, bool, seconds=TIMEOUT)
    log.info("it took %.1f s", time.monotonic() - began)


def kill(container: str) -> None:
    """As `docker kill`, after which the engine leaves it ended."""
    with engine_client() as client:
        client.api.kill(container)


def is_running(container: str) -> bool:
    with engine_client() as client:
        return bool(client.api.inspect_container(container)["State"]["Running"])


def started_at(container: str) -> str:
    with engine_client() as client:
        return str(client.api.inspect_container(container)["State"]["StartedAt"])

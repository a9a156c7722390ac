"""A blocked event loop: real servers whose code sleeps, spins, backtracks and holds the interpreter's lock."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gym import labels
from gym.http.pool import HttpClient, Reply
from gym.runtime.local.probe import probe
from gym.server.watchdog import Watchdog

pytestmark = pytest.mark.asyncio
APP = """
import asyncio, itertools, re, time
from pathlib import Path
from gym.server import ResourcesServer, VerifyRequest, tool, watchdog

watchdog.BEAT_SECONDS = watchdog.LOOK_SECONDS = 0.05
watchdog.SAMPLE_SECONDS, watchdog.REPORT_SECONDS = 0.2, 1.2
watchdog.UNHEALTHY_SECONDS, watchdog.STOPPING_SECONDS = 1.5, 1.3
watchdog.BLOCKED_SECONDS, watchdog.BLOCKED_REPEAT_SECONDS, watchdog.ENDING_SLACK = 1.5, 0.5, 0.5

def blocked():
    Path("blocked").touch()

class Blocking(ResourcesServer[None]):
    @tool
    async def sleep(self) -> str:
        blocked()
        time.sleep(1e6)

    @tool
    async def spin(self) -> str:
        blocked()
        while not Path("go-on").exists(): pass
        return "done"

    @tool
    async def backtrack(self) -> str:
        blocked()
        re.match(r"(a+)+$", "a" * 60 + "b")

    @tool
    async def hold(self) -> str:
        blocked()
        5 in itertools.repeat(1)

    @tool
    async def in_a_task(self) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.sleep())

    @tool
    async def many_steps(self) -> str:
        async def step():
            time.sleep(0.01)
        async with asyncio.TaskGroup() as group:
            for _ in range(200):
                group.create_task(step())
        return "done"

    @tool
    async def quick(self) -> str:
        return "quick"

    async def verify(self, rollout: VerifyRequest) -> float:
        return 1.0

app = Blocking.app()
"""
LINES = APP.splitlines()


def line_of(code: str) -> int:
    return next(number for number, line in enumerate(LINES, 1) if code in line)


@dataclass
class Served:
    process: Process
    url: str
    folder: Path
    http: HttpClient
    address: tuple[str, int]

    async def post(self, path: str, rollout: str) -> Reply:
        headers = [(labels.HEADER_ROLLOUT.encode(), rollout.encode())]
        return await self.http.request("POST", self.url + path, headers=headers, timeout=120)

    async def block(self, path: str) -> asyncio.Task[Reply]:
        """A request that blocks the loop by now."""
        await self.http.request("GET", f"{self.url}/healthz", timeout=60)
        request = asyncio.create_task(self.post(path, "guilty"))
        await until(lambda: (self.folder / "blocked").exists())
        return request

    async def ended(self) -> int:
        async with asyncio.timeout(120):
            return await self.process.wait()

    def log(self) -> str:
        return (self.folder / "log").read_text()


async def until(condition: Any, within: float = 120.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def served(folder: Path, **environ: str) -> AsyncIterator[Served]:
    (folder / "app.py").write_text(APP)
    # Code that holds the interpreter's lock lets a health check through per second of CPU, which may take long.
    http = HttpClient(asks_health=False)
    with socket.socket() as listener, (folder / "log").open("wb") as log:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        address = listener.getsockname()
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gym.server.serve", "app.py"),
            cwd=folder,
            env=os.environ | {labels.ENV_LISTEN: f"fd:{listener.fileno()}", **environ},
            pass_fds=[listener.fileno()],
            stderr=log,
        )
    try:
        yield Served(process, f"http://{address[0]}:{address[1]}", folder, http, address)
    finally:
        await http.aclose()
        if process.returncode is None:
            process.kill()
        await process.wait()


CASES = [("sleep", "time.sleep"), ("spin", "while not Path"), ("backtrack", "re.match")]
if sys.version_info >= (3, 12):  # before, a task does not tell which request started it
    CASES.append(("in_a_task", "time.sleep"))


@pytest.mark.parametrize(("tool", "code"), CASES)
async def test_the_rollout_that_blocks_a_server_gets_the_line_and_those_behind_it_are_not_blamed(
    tmp_path: Path, tool: str, code: str
) -> None:
    async with served(tmp_path, **{labels.ENV_BLOCKED: "8"}) as server:
        kept = asyncio.create_task(server.post("/quick", "before"))
        assert (await kept).status == 200
        guilty = await server.block(f"/{tool}")
        behind = asyncio.create_task(server.post("/quick", "innocent"))
        failure, other = [json.loads(reply.body)["error"] for reply in await asyncio.gather(guilty, behind)]
        assert await server.ended() == labels.EXIT_BLOCKED

    place = f"app.py:{line_of(code)} in {'sleep' if tool == 'in_a_task' else tool}"
    assert place in failure["message"]
    assert (failure["kind"], failure["retryable"]) == ("timeout", False)
    assert place in other["message"]
    assert (other["kind"], other["retryable"]) == ("timeout", True)  # of no kind that a model reads as a tool's output
    assert f"its event loop is blocked at {place}" in server.log()
    assert f"POST /{tool} of rollout guilty" in failure["message"]


async def test_code_that_lets_nothing_else_run_leaves_its_stack_in_the_log_and_is_ended_by_the_kernel(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, **{labels.ENV_BLOCKED: "3"}) as server:
        guilty = await server.block("/hold")
        with pytest.raises(ConnectionError):
            await guilty
        assert await server.ended() == -signal.SIGPROF
    assert f'app.py", line {line_of("5 in itertools")} in hold' in server.log()


async def test_a_blocked_server_says_so_to_a_health_check_and_is_well_again_when_it_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path, **{labels.ENV_BLOCKED: "0"}) as server:
        guilty = await server.block("/spin")
        found = ""
        async with asyncio.timeout(120):
            while "blocked" not in found:
                found = await probe(server.address, "/healthz", timeout=30)
        assert f"its event loop is blocked at app.py:{line_of('while not Path')} in spin" in found
        assert "POST /spin of rollout guilty" in found
        (tmp_path / "go-on").touch()
        assert (await guilty).body == b'"done"'
        async with asyncio.timeout(120):  # who watches the loop looks now and then
            while await probe(server.address, "/healthz", timeout=30):
                pass
        await until(lambda: "the event loop goes on" in server.log())
        assert (await server.post("/quick", "after")).body == b'"quick"'


async def test_a_stop_does_not_wait_for_a_blocked_loop(tmp_path: Path) -> None:
    async with served(tmp_path, **{labels.ENV_BLOCKED: "0", labels.ENV_DRAIN: "100000"}) as server:
        guilty = await server.block("/sleep")
        server.process.send_signal(signal.SIGTERM)
        assert f"app.py:{line_of('time.sleep(1e6)')} in sleep" in (await guilty).body.decode()
        assert await server.ended() == labels.EXIT_BLOCKED


async def test_many_short_steps_in_one_turn_of_the_loop_are_not_a_block(tmp_path: Path) -> None:
    async with served(tmp_path, **{labels.ENV_BLOCKED: "0"}) as server:
        assert (await server.post("/many_steps", "busy")).body == b'"done"'
    assert "blocked" not in server.log()


UNUSED: Any = None


class Looks(Watchdog):
    """Of which only the arithmetic runs: when it would look closer."""

    def __init__(self) -> None:
        super().__init__(UNUSED, 1.0)
        self.examined: list[float] = []

    def _examine(self, now: float, blocked: float, *, held: bool) -> None:
        self.examined.append(blocked)


@pytest.mark.parametrize(("cpu", "examined"), [(0.0, []), (0.5, []), (29.0, [30.0])])
async def test_a_server_that_was_paused_is_not_taken_for_a_blocked_one(cpu: float, examined: list[float]) -> None:
    """Its watching thread did not run for 30 s; only where the process used the CPU meanwhile was its loop blocked."""
    watchdog = Looks()
    watchdog._look(watchdog._beaten + 30, 30.0, cpu)
    assert watchdog.examined == examined

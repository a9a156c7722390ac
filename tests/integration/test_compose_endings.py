"""However a stack ends or is interrupted: requests in flight are finished, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.docker import Stand, call, engine_client, eventually, replicas, stand_in, write_server

pytestmark = pytest.mark.docker

SLOW = """
import asyncio
from gym.server import ResourcesServer, tool

class Slow(ResourcesServer):
    @tool
    async def work(self) -> dict[str, str]:
        \"\"\"Takes its time.\"\"\"
        print("begun", flush=True)
        await asyncio.sleep(3)
        return {"version": "one"}

    async def verify(self, rollout) -> float:
        return 1.0

app = Slow.app()
"""
STUCK = """
import time
time.sleep(600)
"""
UP = """
import os, sys
from pathlib import Path
from tests.support.docker import Stand
Stand(Path(sys.argv[1])).up("stuck")
"""


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with stand_in(tmp_path) as stand:
        yield stand


def left_over(home: Path) -> list[str]:
    with engine_client() as client:
        mine = {"label": f"gym.stack-dir={home}"}
        containers = [one["Names"][0] for one in client.api.containers(all=True, filters=mine)]
        return containers + [one["Name"] for one in client.api.networks(filters=mine)]


def start_up(stand: Stand, stderr: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """`up` in a process of its own, seen to have started the container that never gets healthy."""
    write_server(stand.cwd, "stuck", STUCK)
    stand.home.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen([sys.executable, "-c", UP, str(stand.cwd)], stderr=stderr)
    eventually(lambda: left_over(stand.home), lambda found: any("stuck" in name for name in found), seconds=240)
    return process


def test_a_replaced_server_finishes_what_is_in_flight(stand: Stand) -> None:
    write_server(stand.cwd, "slow", SLOW)
    first = stand.up("slow")
    answers: list[tuple[int, bytes]] = []
    caller = threading.Thread(target=lambda: answers.append(call(first, "POST", "/s/slow/work", {})[:2]))
    caller.start()
    with engine_client() as client:
        eventually(lambda: client.api.logs(replicas(first)["slow-1"]), lambda said: b"begun" in said)
    write_server(stand.cwd, "slow", SLOW.replace('"one"', '"two"'))
    second = stand.up("slow")
    caller.join(240)
    assert [(code, json.loads(body)) for code, body in answers] == [(200, {"version": "one"})]
    assert json.loads(call(second, "POST", "/s/slow/work", {})[1]) == {"version": "two"}


def test_ctrl_c_during_up_leaves_nothing(stand: Stand) -> None:
    process = start_up(stand)
    process.send_signal(signal.SIGINT)
    assert process.wait(240) != 0
    assert left_over(stand.home) == []


def test_a_second_ctrl_c_leaves_nothing_either(stand: Stand) -> None:
    """On a terminal Compose is interrupted as well, and the engine goes on creating what it was asked for."""
    write_server(stand.cwd, "stuck", STUCK)
    prepared = stand.runtime.prepare(stand.home, stand.plan("stuck")[0], {})
    stand.runtime.build(stand.home, prepared, stand.seen.append)
    process = subprocess.Popen(
        [sys.executable, "-c", UP, str(stand.cwd)], stderr=subprocess.DEVNULL, start_new_session=True
    )
    eventually(lambda: left_over(stand.home), bool, seconds=240)
    for _ in range(20):
        os.killpg(process.pid, signal.SIGINT)
        if process.poll() is not None:
            break
        time.sleep(0.1)
    assert process.wait(240) != 0
    assert left_over(stand.home) == []


def test_an_up_whose_stack_is_stopped_meanwhile_ends_at_once_and_says_so(stand: Stand) -> None:
    process = start_up(stand, subprocess.PIPE)
    assert stand.down() is True
    said = process.communicate(timeout=240)[1]
    assert b"Stack 'demo' was stopped meanwhile." in said
    assert left_over(stand.home) == []


def test_what_a_killed_up_left_is_found_again(stand: Stand) -> None:
    process = start_up(stand)
    process.kill()
    process.wait(120)
    assert left_over(stand.home)
    assert stand.down() is True
    assert left_over(stand.home) == []


def test_up_after_a_killed_up_goes_on_where_it_was(stand: Stand) -> None:
    process = start_up(stand)
    process.kill()
    process.wait(120)
    status = stand.up("mcqa")
    assert status.healthy
    assert not any("stuck" in name for name in left_over(stand.home))


def test_sweeping_removes_every_stack_of_this_user_and_of_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stand_in(tmp_path / "theirs") as theirs:
        (tmp_path / "theirs").mkdir()
        theirs.up("mcqa")
        monkeypatch.setenv("GYM_OWNER", f"sweeper-{tmp_path.name}")
        with stand_in(tmp_path / "mine") as mine:
            (tmp_path / "mine").mkdir()
            mine.up("mcqa")
            assert mine.runtime.sweep() == (str(mine.home),)
            assert left_over(mine.home) == []
            assert left_over(theirs.home)
            assert mine.runtime.sweep() == ()

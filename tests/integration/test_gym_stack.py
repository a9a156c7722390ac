"""A stack for a user's own tests: on both runtimes, gone afterwards, gone too when the test was killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from gym.errors import NotUp, UserError
from gym.pytest_plugin import StackStarts
from gym.runtime.local import LocalRuntime
from gym.testing import GymStack
from tests.support.cli import gym
from tests.support.docker import eventually, write_server
from tests.support.shipped import SERVERS

ROW = json.loads((SERVERS / "resources/mcqa/data/example.jsonl").read_text("utf-8").splitlines()[0])
TEST = """
def test_a_row_is_paid(gym_stack):
    stack = gym_stack("mcqa", model="scripted", runtime="local")
    assert stack is gym_stack("mcqa", model="scripted", runtime="local")
    assert stack.status().healthy
    assert "unlikely" in stack.url
"""
SERVER = """
from gym.server import ResourcesServer, tool

class Mine(ResourcesServer):
    @tool
    async def describe(self) -> dict[str, str]:
        \"\"\"As it is configured.\"\"\"
        return {"description": self.config.description}

    async def verify(self, rollout) -> float:
        return 1.0

app = Mine.app()
"""
KILLED = """
import os, signal
from gym.testing import GymStack
stack = GymStack("mcqa", runtime="local").start()
print(stack.folder, *[one.pid for one in stack.status().replicas if one.pid], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("runtime", ["local", pytest.param("compose", marks=pytest.mark.docker)])
def test_a_stack_is_asked_and_leaves_nothing(runtime: Any) -> None:
    with GymStack("mcqa", model="scripted", runtime=runtime).with_replicas("mcqa", 2) as stack:
        assert sum(one.instance == "mcqa" for one in stack.status().replicas) == 2
        with stack.connect() as client:
            assert client.run(ROW, agent="mcqa_simple_agent")["reward"] in (0.0, 1.0)
        assert "mcqa" in stack.get_logs()
        done = gym("rollouts", "mcqa", "-o", "out.jsonl", "--limit", "1", cwd=stack.folder)
        assert done.returncode == 0, done.stderr
        folder = stack.folder
        assert json.loads((folder / "out.jsonl").read_text())["reward"] in (0.0, 1.0)
    assert not folder.exists()
    with pytest.raises(UserError, match="was not started"):
        _ = stack.url


def test_one_that_does_not_come_up_says_what_it_wrote_and_is_gone(tmp_path: Path) -> None:
    server = tmp_path / "broken"
    (server / "configs").mkdir(parents=True)
    (server / "app.py").write_text("raise SystemExit('no luck today')\n")
    (server / "configs/broken.yaml").write_text(
        "broken:\n  resources_servers:\n    broken:\n      entrypoint: app.py\n      domain: other\n"
    )
    with pytest.raises(NotUp) as failed:
        GymStack("broken", runtime="local", timeout=30).with_environ({"GYM_PATH": str(tmp_path)}).start()
    assert "no luck today" in "".join([str(failed.value), *failed.value.__notes__])


def test_a_killed_test_leaves_no_stack() -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    folder, *pids = done.stdout.split()
    assert pids
    eventually(lambda: [pid for pid in pids if _runs(int(pid))], lambda left: not left)
    eventually(Path(folder).exists, lambda found: not found)


def test_a_stack_of_a_folder_is_what_gym_up_would_start_there(tmp_path: Path) -> None:
    write_server(tmp_path, "mine", SERVER)
    (tmp_path / "env.yaml").write_text("mine: {resources_servers: {mine: {description: as env.yaml says}}}\n")
    (tmp_path / "mine.yaml").write_text("mine: {resources_servers: {mine: {replicas: 2}}}\n")
    with GymStack("mine", runtime="local", folder=tmp_path).with_config("mine.yaml") as stack:
        asked = Request(f"{stack.url}/s/mine/describe", b"{}", {"content-type": "application/json"})
        with urlopen(asked, timeout=60) as reply:
            assert json.load(reply) == {"description": "as env.yaml says"}
        found = json.loads(gym("ps", "--json", cwd=stack.folder).stdout)
        assert (found["router"], sum(one["instance"] == "mine" for one in found["replicas"])) == (stack.url, 2)
        with pytest.raises(UserError, match="A stack runs in .* already"):
            GymStack("mcqa", runtime="local", folder=tmp_path).start()
        assert stack.status().healthy
    assert "does not run" in gym("ps", cwd=tmp_path).stderr
    assert (tmp_path / ".gym" / "gym" / "logs" / "mine-1.log").is_file()


async def test_a_start_beside_an_event_loop_may_be_cancelled_and_leaves_nothing(tmp_path: Path) -> None:
    stack = GymStack("mcqa", runtime="local", folder=tmp_path)
    supervised = tmp_path / ".gym" / "gym" / "state.json"
    starting = asyncio.create_task(stack.__aenter__())
    while not supervised.exists():
        assert not starting.done()
        await asyncio.sleep(0.01)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert LocalRuntime().status(tmp_path / ".gym" / "gym") is None
    async with stack:
        assert stack.status().healthy
    assert LocalRuntime().status(tmp_path / ".gym" / "gym") is None


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"


def test_the_fixture_keeps_a_stack_for_a_module_and_a_failed_test_shows_its_logs(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TEST)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "'unlikely' in" in done.stdout
    assert "gym logs of mcqa" in done.stdout


def test_words_and_options_tell_stacks_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GymStack, "start", lambda self: self)
    starts = StackStarts()
    first = starts("mcqa", runtime="local")
    assert starts("mcqa", runtime="local") is first
    assert starts("mcqa", runtime="compose") is not first

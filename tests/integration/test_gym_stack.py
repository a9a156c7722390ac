"""A stack for a user's own tests: on both runtimes, gone afterwards, gone too when the test was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gym.errors import NotUp, UserError
from gym.pytest_plugin import StackStarts
from gym.testing import GymStack
from tests.support.docker import eventually
from tests.support.shipped import SERVERS

ROW = json.loads((SERVERS / "resources/mcqa/data/example.jsonl").read_text("utf-8").splitlines()[0])
TEST = """
def test_a_row_is_paid(gym_stack):
    stack = gym_stack("mcqa", model="scripted", runtime="local")
    assert stack is gym_stack("mcqa", model="scripted", runtime="local")
    assert stack.status().healthy
    assert "unlikely" in stack.url
"""
KILLED = """
import os, signal
from gym.testing import GymStack
stack = GymStack("mcqa", runtime="local").start()
print(*[one.pid for one in stack.status().replicas if one.pid], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("runtime", ["local", pytest.param("compose", marks=pytest.mark.docker)])
def test_a_stack_is_asked_and_leaves_nothing(runtime: Any) -> None:
    with GymStack("mcqa", model="scripted", runtime=runtime).with_replicas("mcqa", 2) as stack:
        assert sum(one.instance == "mcqa" for one in stack.status().replicas) == 2
        with stack.connect() as client:
            assert client.run(ROW, agent="mcqa_simple_agent")["reward"] in (0.0, 1.0)
        assert "mcqa" in stack.get_logs()
        home = stack._started().home  # noqa: SLF001  (what is left behind is looked for)
    assert not home.exists()
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
    pids = [int(one) for one in done.stdout.split()]
    assert pids
    eventually(lambda: [pid for pid in pids if _runs(pid)], lambda left: not left)


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

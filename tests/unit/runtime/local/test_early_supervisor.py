"""A supervisor that is begun as a fork of the command: it serves like any other, and is gone where it is not needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gym.cli.main import starts_local_stack
from gym.runtime.identity import identify, is_alive
from gym.runtime.local.control import ask
from gym.runtime.local.home import Home, prepare_home
from gym.runtime.local.launch import find_supervisor
from gym.runtime.local.listeners import SUPERVISOR
from gym.runtime.local.supervisor_requests import stop
from tests.support.stacks import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a fork of the command is for Linux")

# What `gym up` does around it. `{}` is what happens then; the fork's parent is asked by its children.
COMMAND = """
import json, os, sys, threading
from pathlib import Path
from gym.runtime.local.early_supervisor import EARLY
from gym.runtime.local.home import Home
from gym.runtime.local.launch import launch_supervisor

def children():
    return [int(one) for one in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]

def say(**found):
    print(json.dumps(found), flush=True)

home = Home(Path(sys.argv[1]))
"""
BEGIN = """
given = EARLY.begin()
if given is not None:
    from gym.runtime.local import supervisor
    raise SystemExit(supervisor.main(given))
"""


def command(home: Path, then: str, begin: str = BEGIN) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", COMMAND + begin + then, str(home)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=home)


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


def test_it_serves_the_stack_and_outlives_the_command(tmp_path: Path) -> None:
    home = prepare_home(tmp_path / "home")
    with command(
        home.path, "say(before=children()); launch_supervisor(home).close(); say(after=children())"
    ) as process:
        assert len(said(process)["before"]) == 1
        assert said(process)["after"] == []
        assert process.wait() == 0
        assert process.stdout is not None
        assert process.stdout.read() == ""  # and it ended: nothing that goes on holds our pipe

    connection = find_supervisor(home)
    assert connection is not None
    supervisor = next(ask(connection, "status"))["done"]["supervisor"]
    found = identify(supervisor["pid"])
    assert found is not None
    words = Path(f"/proc/{found.pid}/cmdline").read_text().rstrip("\0")
    assert words.startswith(f"{sys.executable} -P -m {SUPERVISOR} {home.path} ")
    assert Path(f"/proc/{found.pid}/cwd").readlink() == home.path
    assert Path(f"/proc/{found.pid}/fd/2").readlink() == home.log("supervisor")
    assert stop(home)
    until(lambda: not is_alive(found))
    assert "ended" in home.log("supervisor").read_text()


def test_a_command_that_needs_it_no_more_leaves_none(tmp_path: Path) -> None:
    then = "before = children(); EARLY.drop(); say(before=before, after=children())"
    with command(tmp_path, then) as process:
        found = said(process)
        assert len(found["before"]) == 1
        assert found["after"] == []
        assert process.wait() == 0


def test_it_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    with command(tmp_path, "say(children=children()); sys.stdin.read()") as process:
        early = identify(said(process)["children"][0])
        assert early is not None
        process.kill()
        until(lambda: not is_alive(early))


def test_a_command_with_threads_is_not_forked(tmp_path: Path) -> None:
    begin = "threading.Thread(target=sys.stdin.read, daemon=True).start()\n" + BEGIN
    with command(tmp_path, "say(children=children())", begin) as process:
        assert said(process)["children"] == []


def test_a_supervisor_starts_from_nothing_where_the_early_one_has_died(tmp_path: Path) -> None:
    home = prepare_home(tmp_path / "home")
    then = "os.kill(children()[0], 9); launch_supervisor(home).close(); say(done=True)"
    with command(home.path, then) as process:
        assert said(process) == {"done": True}
    until(lambda: answers_as_idle(home))
    assert stop(home)


def answers_as_idle(home: Home) -> bool:
    connection = find_supervisor(home)
    return connection is not None and next(ask(connection, "status"))["done"]["status"]["stack"] == ""


@pytest.mark.parametrize(
    ("words", "starts"),
    [
        ("up mcqa --runtime local", True),
        ("up --runtime=local mcqa", True),
        ("up mcqa", False),
        ("up mcqa --runtime compose", False),
        ("up --runtime local --help", False),
        ("render mcqa --runtime local", False),
    ],
)
def test_only_a_command_that_surely_starts_processes_begins_one(words: str, starts: bool) -> None:
    assert starts_local_stack(words.split()) is starts

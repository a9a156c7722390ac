"""A local stack stays whole whatever is killed or damaged: servers, the supervisor, commands, files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gym.errors import NotUp
from gym.plan import diff
from gym.runtime.identity import is_alive
from gym.runtime.local import LocalRuntime
from gym.runtime.local.home import Home
from gym.runtime.local.pid_file import Record, read_record
from gym.wire.discovery import Discovery
from tests.support.stacks import (
    all_gone,
    answers,
    call,
    identity_of,
    kill_owners,
    make_service,
    make_stack,
    pids,
    recorded,
    replica,
    start,
    until,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are found by /proc")


def record_of(home: Path) -> Record:
    found = read_record(Home(home))
    assert found is not None
    return found


def is_healthy(home: Path) -> bool:
    status = LocalRuntime().status(home)
    return status is not None and status.healthy


def kill_supervisor(home: Path) -> None:
    """SIGKILL, and wait for the one that follows."""
    before = record_of(home).supervisor
    os.kill(before.pid, signal.SIGKILL)

    def is_followed() -> bool:
        record = read_record(Home(home))
        return record is not None and record.supervisor != before

    until(is_followed)


@linux
def test_a_killed_supervisor_is_followed_by_another_and_no_server_notices(home: Path, tmp_path: Path) -> None:
    plan = make_stack(make_service(tmp_path, "one", replicas=2), make_service(tmp_path, "two", script=True))
    before = start(home, plan)
    errors: list[str] = []
    over = threading.Event()

    def ask_on() -> None:
        while not over.is_set():
            try:
                call(f"{before.router}/s/one", "/slow")
            except (OSError, ValueError) as error:
                errors.append(repr(error))

    caller = threading.Thread(target=ask_on)
    caller.start()
    kill_supervisor(home)
    until(lambda: is_healthy(home))
    over.set()
    caller.join()

    after = LocalRuntime().status(home)
    assert after is not None
    assert errors == []
    assert pids(after) == pids(before)
    assert after.router == before.router
    killed = replica(after, "one-1").pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)  # of a process that the new supervisor has not started
    until(lambda: is_healthy(home) and replica(LocalRuntime().status(home), "one-1").pid != killed)
    assert start(home, plan).healthy
    warden = record_of(home).warden
    assert warden is not None
    running = [*recorded(home), warden]
    assert LocalRuntime().down(home)
    until(lambda: all_gone(running))


@linux
def test_a_killed_warden_is_replaced_and_the_new_one_does_its_work(home: Path, tmp_path: Path) -> None:
    before = start(home, make_stack(make_service(tmp_path, "one")))
    first = record_of(home)
    assert first.warden is not None
    os.kill(first.warden.pid, signal.SIGKILL)

    def is_replaced() -> bool:
        found = read_record(Home(home))
        return found is not None and found.warden not in (None, first.warden) and is_alive(found.supervisor)

    until(is_replaced)
    until(lambda: is_healthy(home))
    kill_supervisor(home)
    until(lambda: is_healthy(home))
    after = LocalRuntime().status(home)
    assert after is not None
    assert pids(after) == pids(before)
    warden = record_of(home).warden
    assert warden is not None
    running = [*recorded(home), warden]
    assert LocalRuntime().down(home)
    until(lambda: all_gone(running))


@linux
def test_servers_go_on_serving_when_their_supervisors_are_gone_and_up_replaces_them(home: Path, tmp_path: Path) -> None:
    plan = make_stack(make_service(tmp_path, "one", child=True), make_service(tmp_path, "stubborn", stubborn=True))
    before = start(home, plan)
    child = identity_of(call(replica(before, "one-1").url)["child"])
    orphans = recorded(home)[1:]
    kill_owners(home)

    assert call(f"{before.router}/s/one")["pid"] == replica(before, "one-1").pid
    left = LocalRuntime().status(home)
    assert left is not None
    assert {one.replica for one in left.replicas} == {"one-1", "stubborn-1", "console", "router"}
    assert all("gym up" in one.detail for one in left.replicas)
    (home / "state.json").write_text("{")  # what was written down is lost as well
    port = int(before.router.rpartition(":")[2])
    after = start(home, make_stack(*plan.services, port=port))
    assert after.router == before.router
    until(lambda: all_gone([*orphans, child]))


@linux
def test_a_change_whose_command_and_supervisor_are_killed_is_finished(home: Path, tmp_path: Path) -> None:
    start(home, make_stack(make_service(tmp_path, "one", color="red", replicas=2)))
    changed = make_stack(make_service(tmp_path, "one", color="blue", replicas=3), drain_seconds=5.0)
    (tmp_path / "plan.json").write_text(changed.model_dump_json())
    argv = [sys.executable, "-c", COMMAND, str(home), str(tmp_path / "plan.json")]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as command:
        until(lambda: "one-3" in record_of(home).processes)
        command.kill()
    kill_supervisor(home)

    def is_blue() -> bool:
        status = LocalRuntime().status(home)
        if status is None or not status.healthy or len(status.replicas) != 5:
            return False
        ours = [one for one in status.replicas if one.instance == "one"]
        try:
            return {call(one.url)["fields"]["color"] for one in ours} == {"blue"}
        except (OSError, ValueError):  # one of them is being replaced
            return False

    until(is_blue)
    assert {one.action for one in diff(changed, LocalRuntime().observe(home))} == {"keep"}


COMMAND = """
import sys
from pathlib import Path
from gym.plan.model import Plan
from gym.runtime.local import LocalRuntime
plan = Plan.model_validate_json(Path(sys.argv[2]).read_bytes())
runtime = LocalRuntime()
runtime.up(Path(sys.argv[1]), runtime.prepare(Path(sys.argv[1]), plan, {}), lambda status: None, timeout=60)
"""


def test_a_replica_that_a_failed_change_did_not_come_to_is_replaced_by_the_next_one(home: Path, tmp_path: Path) -> None:
    start(home, make_stack(make_service(tmp_path, "one", replicas=2)))
    broken = make_stack(make_service(tmp_path, "one", replicas=2, crash=True))
    with pytest.raises(NotUp):
        start(home, broken)

    assert replica(LocalRuntime().status(home), "one-2").state == "healthy"  # the old one goes on
    assert LocalRuntime().observe(home).services["one"].digest != broken.services[0].digest


@pytest.mark.parametrize("damage", ["removed", "emptied", "overwritten"])
def test_every_file_that_a_stack_publishes_is_written_again(home: Path, tmp_path: Path, damage: str) -> None:
    status = start(home, make_stack(make_service(tmp_path, "one")))
    (home / "session.json").write_text('{"runtime":"local"}')
    start(home, make_stack(make_service(tmp_path, "one")))
    paths = [home / name for name in ("discovery.json", "plan.json", "console.json", "state.json", "session.json")]
    paths += [home / "traefik" / "static.yml", home / "traefik" / "dynamic" / "stack.yml"]
    before = {path: path.read_text() for path in paths}
    for path in paths:
        if damage == "removed":
            path.unlink()
        else:
            path.write_text("" if damage == "emptied" else "http: {routers: {}}")

    until(lambda: all(path.exists() and path.read_text() == text for path, text in before.items()))
    until(lambda: answers(f"{status.router}/s/one", "one-1"))
    until(lambda: is_healthy(home))


def test_the_folder_that_the_router_watches_may_be_removed(home: Path, tmp_path: Path) -> None:
    status = start(home, make_stack(make_service(tmp_path, "one")))
    shutil.rmtree(home / "traefik")
    until(lambda: (home / "traefik" / "dynamic" / "stack.yml").exists())
    until(lambda: is_healthy(home))
    start(home, make_stack(make_service(tmp_path, "one"), make_service(tmp_path, "two")))

    until(lambda: answers(f"{status.router}/s/two", "two-1"))


def test_commands_find_the_supervisor_again_whose_socket_was_removed(home: Path, tmp_path: Path) -> None:
    before = start(home, make_stack(make_service(tmp_path, "one")))
    (home / "control.sock").unlink()

    until(lambda: is_healthy(home))
    assert pids(start(home, make_stack(make_service(tmp_path, "one")))) == pids(before)


def test_a_server_that_was_stopped_by_a_signal_is_taken_out_at_once_and_replaced(home: Path, tmp_path: Path) -> None:
    before = start(home, make_stack(make_service(tmp_path, "one", replicas=2)))
    stopped = identity_of(replica(before, "one-1").pid)
    os.kill(stopped.pid, signal.SIGSTOP)

    def healthy() -> dict[str, bool]:
        discovery = Discovery.model_validate_json((home / "discovery.json").read_bytes())
        return {one.id: one.healthy for one in discovery.instances["one"].replicas}

    # It is out for as long as it takes to replace it: who looks too late finds it replaced.
    until(lambda: healthy() == {"one-1": False, "one-2": True} or not is_alive(stopped))
    until(lambda: not is_alive(stopped) and is_healthy(home))

"""A local stack is found from everywhere while it runs, and never taken to run after it has ended."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.runtime.identity import Identity, identify
from gym.runtime.local.home import Home, prepare_home
from gym.runtime.local.pid_file import PidFile, Record, marker, read_note, read_notes, sweep
from gym.runtime.stack_list import KILLED, LOST, find_local_stacks
from gym.runtime.user_state import RUNNING, note_of


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return prepare_home(tmp_path / "work" / ".gym" / "eval")


@pytest.fixture
def server(home: Home) -> Iterator[Identity]:
    """A process as a stack starts it: the leader of a session, with the stack's marker."""
    name, _, value = marker(home).partition("=")
    environ = {**os.environ, name: value, "GYM_REPLICA": "one-1"}
    argv = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env=environ, start_new_session=True) as process:
        found = identify(process.pid)
        assert found is not None
        yield found
        process.kill()


def me() -> Identity:
    found = identify(os.getpid())
    assert found is not None
    return found


def test_a_note_lives_as_long_as_its_supervisor_writes(home: Home) -> None:
    pid_file = PidFile(home, Record(supervisor=me()))
    pid_file.set_stack("eval", "http://127.0.0.1:1234", ["/envs/b/bin/python", "/envs/a/bin/python"])
    (found,) = find_local_stacks()
    assert (found.stack, found.folder, found.port, found.lost) == ("eval", home.path.parent.parent, 1234, False)
    note = read_note(home)
    assert note is not None
    assert note.record.pythons == ("/envs/a/bin/python", "/envs/b/bin/python")
    pid_file.close()
    assert find_local_stacks() == []


def test_a_note_that_was_lost_is_written_again(home: Home) -> None:
    pid_file = PidFile(home, Record(supervisor=me()))
    note_of(RUNNING, home.path).unlink()
    pid_file.repair()
    assert [one.home for one in read_notes()] == [home.path]


def test_a_pid_that_another_process_bears_now_is_not_the_stack(home: Home) -> None:
    earlier = Identity(pid=os.getpid(), start="of an earlier boot")
    PidFile(home, Record(supervisor=earlier, processes={"one-1": earlier}))
    assert find_local_stacks() == []
    assert read_note(home) is None


def test_servers_that_outlive_their_supervisor_are_found_and_ended_even_where_the_folder_is_gone(
    home: Home, server: Identity
) -> None:
    gone = Identity(pid=os.getpid(), start="of an earlier boot")
    PidFile(home, Record(stack="eval", supervisor=gone, processes={"one-1": server}))
    assert [one.state for one in find_local_stacks()] == [KILLED]
    home.path.rename(home.path.with_name("moved"))
    (found,) = find_local_stacks()
    assert (found.stack, found.state, found.lost) == ("eval", LOST, True)
    assert sweep(home) == 1
    assert identify(server.pid) != server
    assert find_local_stacks() == []


def test_a_supervisor_that_carries_on_has_not_begun_the_stack(home: Home) -> None:
    PidFile(home, Record(supervisor=me(), warden=me()))
    first = read_note(home)
    PidFile(home, Record(supervisor=me(), warden=me()))
    PidFile(home, Record(supervisor=Identity(pid=1, start="x"), warden=me()))
    later = read_note(home)
    assert first is not None
    assert later is not None
    assert later.since == first.since


def test_stacks_of_another_owner_are_not_shown(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    PidFile(home, Record(supervisor=me()))
    monkeypatch.setenv("GYM_OWNER", "grace")
    assert list(read_notes()) == []


def test_a_stack_runs_where_no_note_can_be_written(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/no/such/place")
    PidFile(home, Record(supervisor=me())).set_stack("eval", "")
    assert home.state.is_file()
    assert find_local_stacks() == []

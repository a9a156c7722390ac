from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gym.runtime import identity as module
from gym.runtime.identity import Identity, end_processes, find_session, identify, is_alive
from tests.support.stacks import until

MARKER = "GYM_TEST_MARKER=here"


@contextmanager
def leader(code: str) -> Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "GYM_TEST_MARKER": "here"}
    argv = [sys.executable, "-I", "-S", "-c", code]
    with subprocess.Popen(argv, start_new_session=True, env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


SLEEPER = "import time; print('up', flush=True); time.sleep(1000)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER
PARENT = "import os, time\nif os.fork() == 0:\n    print(os.getpid(), flush=True)\ntime.sleep(1000)"


def test_a_process_is_itself_until_it_ends() -> None:
    with leader(SLEEPER) as process:
        found = identify(process.pid)
        assert found is not None
        assert is_alive(found)
        process.kill()
        until(lambda: not is_alive(found))  # not yet reaped: a zombie does not live

    assert identify(process.pid) is None


def test_a_later_bearer_of_the_pid_is_another_process() -> None:
    me = identify(os.getpid())
    assert me is not None

    assert not is_alive(Identity(pid=me.pid, start="earlier"))


def test_what_does_not_live_is_not_signalled() -> None:
    end_processes([Identity(pid=os.getpid(), start="earlier")], grace=0.1)

    assert identify(os.getpid()) is not None


def test_processes_end_by_their_own_will_or_by_force() -> None:
    with leader(SLEEPER) as willing, leader(DEAF) as deaf:
        assert willing.stdout is not None
        assert deaf.stdout is not None
        assert willing.stdout.readline() == deaf.stdout.readline() == "up\n"
        both = [identify(willing.pid), identify(deaf.pid)]
        end_processes([one for one in both if one], grace=5)

        assert (willing.wait(), deaf.wait()) == (-15, -9)


@pytest.mark.skipif(sys.platform != "linux", reason="sessions are read from /proc")
def test_a_session_is_found_when_its_leader_is_gone_and_a_strangers_is_not() -> None:
    with leader(PARENT) as process:
        assert process.stdout is not None
        child = identify(int(process.stdout.readline()))
        first = identify(process.pid)
        assert child is not None
        assert first is not None
        assert {one.pid for one in find_session(first, MARKER)} == {first.pid, child.pid}
        process.kill()
        process.wait()

        assert list(find_session(first, MARKER)) == [child]
        assert list(find_session(first, "GYM_TEST_MARKER=elsewhere")) == []
        end_processes([child], grace=5)


def test_without_proc_the_process_table_tells_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_has_proc", lambda: False)
    with leader(SLEEPER) as process:
        found = identify(process.pid)
        assert found is not None
        assert list(find_session(found, MARKER)) == [found]
        process.kill()
        until(lambda: not is_alive(found))

    assert list(find_session(found, MARKER)) == []

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gym.http.pool import HttpClient
from gym.runtime.lateness import MAX_EARLY_EXITS
from gym.runtime.local import replica_process as module
from gym.runtime.local.child_process import ProcessSpec, Reaper
from gym.runtime.local.listeners import listen_on_loopback
from gym.runtime.local.replica_process import ProcessContext, ReplicaProcess
from gym.runtime.local.replica_role import ReplicaRole
from gym.server.blocked_replies import failure_of_others, reply_of
from gym.wire.failures import error_from_reply

SERVER = """
import os, signal, socket, sys, time
listener = socket.socket(fileno=3)
while True:
    connection, _ = listener.accept()
    connection.recv(1000)
    unhealthy = os.path.exists("unhealthy")
    connection.sendall(b"HTTP/1.1 503 No\\r\\n\\r\\n" if unhealthy else b"HTTP/1.1 200 OK\\r\\n\\r\\n")
    connection.close()
"""


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "BACKOFF_FIRST": 0.01,
        "ALIVE_EVERY": 0.02,
        "ALIVE_TIMEOUT": 60.0,
        "AGAIN_AFTER": 0.02,
        "KILL_AFTER_DRAIN": 0.05,
    }.items():
        monkeypatch.setattr(module, name, value)


@asynccontextmanager
async def running_process(tmp_path: Path, code: str = SERVER) -> AsyncIterator[ReplicaProcess]:
    argv = (sys.executable, "-I", "-S", "-c", code)
    spec = ProcessSpec("x-1", argv, dict(os.environ), tmp_path, tmp_path / "x.log", 0.1)
    context = ProcessContext(
        Reaper(asyncio.get_running_loop()), lambda name, identity, digest: None, lambda name: None, changed=lambda: None
    )
    with listen_on_loopback() as listener:
        process = ReplicaProcess(
            ReplicaRole("x", "x-1", "resources_servers", "x"), spec, listener, context, hand_over=True
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(process.run())
            try:
                yield process
            finally:
                process.retire()
    assert process.state == "exited"
    assert process.pid is None


async def until(condition: Callable[[], bool], within: float = 120.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)


async def test_a_server_is_healthy_from_its_first_good_answer(tmp_path: Path) -> None:
    async with running_process(tmp_path) as process:
        assert process.status().uptime_seconds == 0
        await until(lambda: process.state == "healthy")
        status = process.status()

    assert (status.instance, status.replica, status.restarts, status.detail) == ("x", "x-1", 0, "")
    assert status.pid is not None
    assert status.url.startswith("http://127.0.0.1:")


async def test_an_unhealthy_server_is_marked_and_left_running_until_it_is_healthy_again(tmp_path: Path) -> None:
    async with running_process(tmp_path) as process:
        await until(lambda: process.state == "healthy")
        pid = process.pid
        (tmp_path / "unhealthy").touch()
        await until(lambda: process.state == "unhealthy")
        assert process.detail == "status 503 on /healthz"
        (tmp_path / "unhealthy").unlink()
        await until(lambda: process.state == "healthy")

        assert (process.pid, process.restarts, process.detail) == (pid, 0, "")


async def test_a_server_that_says_its_loop_is_blocked_is_unhealthy_at_once_and_its_end_names_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    where = "its event loop is blocked at app.py:12 in verify: time.sleep(30)"
    reply = reply_of(failure_of_others("x", where)).decode()
    code = SERVER.replace('b"HTTP/1.1 503 No\\r\\n\\r\\n"', repr(reply) + ".encode()") + (
        "    os.path.exists('end') and os._exit(86)\n"
    )
    monkeypatch.setattr(module, "MISSED_ANSWERS", 10**9)
    async with running_process(tmp_path, code) as process:
        await until(lambda: process.state == "healthy")
        (tmp_path / "unhealthy").touch()
        await until(lambda: process.state == "unhealthy")
        assert process.detail == where
        (tmp_path / "end").touch()
        await until(lambda: process.restarts > 0)
        assert f"x-1: {where}; it restarts" in caplog.text


async def test_a_server_that_stands_still_is_unhealthy(tmp_path: Path) -> None:
    async with running_process(tmp_path) as process:
        await until(lambda: process.state == "healthy")
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        await until(lambda: process.state == "unhealthy")
        assert process.detail == "stopped by a signal (SIGSTOP)"
        os.kill(process.pid, signal.SIGCONT)
        await until(lambda: process.state == "healthy")
        assert process.restarts == 0


async def test_a_server_that_stays_stopped_is_ended_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOPPED_SECONDS", 0.1)
    async with running_process(tmp_path) as process:
        await until(lambda: process.state == "healthy")
        first = process.pid
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        await until(lambda: process.restarts == 1 and process.state == "healthy")

        assert process.pid not in (first, None)


async def test_a_server_that_hangs_is_marked_then_ended_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "ALIVE_TIMEOUT", 0.2)
    monkeypatch.setattr(module, "HUNG_SECONDS", 1.0)
    hangs = SERVER.replace("    connection.recv(1000)", "    while os.path.exists('hang'): time.sleep(0.01)")
    async with running_process(tmp_path, hangs) as process:
        await until(lambda: process.state == "healthy")
        first = process.pid
        (tmp_path / "hang").touch()
        await until(lambda: process.state == "unhealthy")
        assert process.detail == "no answer on /healthz within 0.2 s"
        await until(lambda: process.restarts >= 1)
        (tmp_path / "hang").unlink()
        await until(lambda: process.state == "healthy")

        assert process.pid != first
        assert "killed, for it hung: no answer on /healthz" in caplog.text


async def test_a_crash_is_followed_by_a_new_start_and_counted(tmp_path: Path) -> None:
    async with running_process(tmp_path) as process:
        await until(lambda: process.state == "healthy")
        first = process.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await until(lambda: process.restarts == 1 and process.state == "healthy")

        assert process.pid not in (first, None)
        assert not process.gave_up


async def test_a_server_that_ends_again_and_again_at_its_start_is_given_up_and_a_nudge_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    code = "import os; print('words', flush=True); os._exit(0 if os.path.exists('well') else 5)"
    async with running_process(tmp_path, code) as process:
        await until(lambda: process.gave_up)
        assert process.early_exits >= MAX_EARLY_EXITS
        assert process.late().log.endswith("words")
        await until(lambda: process.state == "restarting")
        assert process.detail == "exit code 5"
        monkeypatch.setattr(module, "BACKOFF_FIRST", 1000)
        (tmp_path / "well").touch()
        process.retry_now()
        await until(lambda: process.detail == "exit code 0")

        assert not process.gave_up
        assert "it restarts in 1000.0 s" in caplog.text  # the back-off begins again as well


async def test_a_caller_of_a_server_that_ends_at_each_start_gets_that_error_until_it_is_healthy(
    tmp_path: Path,
) -> None:
    code = f"import os\nif not os.path.exists('well'): os._exit(5)\n{SERVER}"
    http = HttpClient()
    async with running_process(tmp_path, code) as process:
        reply = await http.request("POST", f"{process.url}/verify", body=b"x" * 300_000)
        error = error_from_reply(reply.status, reply.body, server="", kind="agent")
        assert (reply.status, error.kind, error.server, error.retryable) == (503, "resources", "x", True)
        assert error.message == "x ends at each start (exit code 5): `gym logs x` shows why"
        (tmp_path / "well").touch()
        process.retry_now()
        await until(lambda: process.state == "healthy")  # asked on the same socket
    await http.aclose()


async def test_what_cannot_be_started_is_tried_again_like_a_crash(tmp_path: Path) -> None:
    async with running_process(tmp_path) as process:
        await until(lambda: process.state == "healthy")
        process.restart(ProcessSpec("x-1", ("true",), {}, tmp_path / "nowhere", tmp_path / "x.log", 0.1))
        await until(lambda: process.gave_up)

        assert "it could not be started" in process.detail


async def test_a_restart_is_not_a_crash(tmp_path: Path) -> None:
    async with running_process(tmp_path) as process:
        await until(lambda: process.state == "healthy")
        first = process.pid
        process.restart()
        assert process.status().state == "stopping"
        await until(lambda: process.state == "healthy")

        assert process.pid != first
        assert process.restarts == 0


async def test_a_server_that_does_not_want_to_end_is_killed(tmp_path: Path) -> None:
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{SERVER}"
    async with running_process(tmp_path, deaf) as process:
        await until(lambda: process.state == "healthy")
        pid = process.pid
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gym.labels import EXIT_BLOCKED
from gym.runtime.identity import Identity, is_alive
from gym.runtime.local import exec_guard
from gym.runtime.local.child_process import ProcessSpec, Reaper, describe_exit, send_signal, start_process
from gym.runtime.local.listeners import listen_on_loopback
from tests.support.stacks import until


def spec_of(tmp_path: Path, code: str, **more: object) -> ProcessSpec:
    argv = (sys.executable, "-I", "-S", "-c", code)
    base = ProcessSpec("x-1", argv, dict(os.environ), tmp_path, tmp_path / "x.log", 1.0)
    return ProcessSpec(**{**base.__dict__, **more})


def run(spec: ProcessSpec, *, listen: bool = False) -> tuple[int, list[Identity], str]:
    """Exit code, what was remembered, what the log holds without the line of the start."""

    async def live() -> tuple[int, list[Identity]]:
        remembered: list[Identity] = []
        listener = listen_on_loopback() if listen else None
        reaper = Reaper(asyncio.get_running_loop())
        code = await reaper.exit_of(start_process(spec, listener, remembered.append))
        if listener:
            listener.close()
        return code, remembered

    code, remembered = asyncio.run(live())
    return code, remembered, spec.log.read_text().partition(" ---\n")[2]


def test_a_process_is_remembered_before_it_runs_and_its_log_says_when_it_started(tmp_path: Path) -> None:
    code, (identity,), words = run(
        spec_of(tmp_path, "import os; print(os.getpid(), os.getpgid(0), flush=True); os._exit(4)")
    )

    assert code == 4
    assert words == f"{identity.pid} {identity.pid}\n"
    assert (tmp_path / "x.log").read_text().startswith(f"--- x-1 starts: pid {identity.pid}, ")


def test_listener_and_document_arrive_at_their_numbers_and_nothing_else_does(tmp_path: Path) -> None:
    look = """
import os, socket
print(socket.socket(fileno=3).getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
print(open('/dev/fd/4').read())
print(sorted(int(name) for name in os.listdir('/dev/fd'))[:5], os.read(0, 1))
print(os.environ['LISTEN_PID'] == str(os.getpid()))
"""
    code, _, words = run(spec_of(tmp_path, look, document=b"given", activated=True), listen=True)

    assert words.splitlines()[:3] == ["1", "given", "[0, 1, 2, 3, 4] b''"]
    assert words.splitlines()[3] == "True"
    assert code == 0


def test_a_listener_arrives_whatever_its_number_was(tmp_path: Path) -> None:
    """A supervisor of many servers has descriptors of every number."""

    async def live() -> list[int]:
        reaper, codes = Reaper(asyncio.get_running_loop()), []
        spec = spec_of(tmp_path, "import socket; socket.socket(fileno=3); open('/dev/fd/4').read()", document=b"given")
        with listen_on_loopback() as listener:
            for lowest in (99, 103, 104, 107):  # that number, where nothing else has it
                with socket.socket(fileno=fcntl.fcntl(listener.fileno(), fcntl.F_DUPFD_CLOEXEC, lowest)) as one:
                    codes.append(await reaper.exit_of(start_process(spec, one, lambda _: None)))
        return codes

    assert asyncio.run(live()) == [0, 0, 0, 0]


def test_a_program_that_is_not_there_is_said_in_its_log(tmp_path: Path) -> None:
    code, _, words = run(spec_of(tmp_path, "", argv=("/no/such/program",)))

    assert code == 127
    assert words == "cannot start /no/such/program: No such file or directory\n"


def test_what_could_not_be_remembered_never_runs(tmp_path: Path) -> None:
    seen: list[int] = []

    def fail(identity: Identity) -> None:
        seen.append(identity.pid)
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        start_process(spec_of(tmp_path, "print('ran')"), None, fail)

    assert len(seen) == 1
    assert (tmp_path / "x.log").read_text() == ""


@pytest.mark.skipif(sys.platform != "linux", reason="no such tie elsewhere; `gym down` finds what is recorded")
async def test_a_signal_to_a_process_that_has_just_ended_leaves_its_exit_code_to_the_reaper(tmp_path: Path) -> None:
    reaper = Reaper(asyncio.get_running_loop())
    process = start_process(spec_of(tmp_path, "import os; os._exit(4)"), None, lambda _: None)
    exited = reaper.exit_of(process)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and the loop has not turned since

    send_signal(process, signal.SIGTERM)

    assert await asyncio.wait_for(exited, 120) == 4


def test_a_process_ends_with_its_parent_even_when_that_is_killed(tmp_path: Path) -> None:
    parent = f"""
import json, sys, time
from dataclasses import asdict
from pathlib import Path
from gym.runtime.local.child_process import ProcessSpec, start_process
argv = (sys.executable, "-c", "import time; time.sleep(1000)")
spec = ProcessSpec("x-1", argv, {{}}, Path({str(tmp_path)!r}), Path({str(tmp_path / "x.log")!r}), 1.0)
start_process(spec, None, lambda identity: print(json.dumps(asdict(identity)), flush=True))
time.sleep(1000)
"""
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = Identity(**json.loads(process.stdout.readline()))
        assert is_alive(child)
        process.kill()

    until(lambda: not is_alive(child))


def test_a_guard_that_is_not_let_go_does_not_start_anything() -> None:
    argv = [
        sys.executable,
        "-I",
        "-S",
        exec_guard.__file__,
        str(os.getpid()),
        "",
        "--",
        sys.executable,
        "-c",
        "print('ran')",
    ]
    found = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    assert (found.returncode, found.stdout) == (1, "")


@pytest.mark.parametrize(
    ("code", "words"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "ended by SIGKILL"), (-99, "ended by signal 99")]
)
def test_an_end_is_reported_in_words(code: int, words: str) -> None:
    assert describe_exit(code) == words


@pytest.mark.parametrize("code", [EXIT_BLOCKED, -signal.SIGPROF])
def test_an_end_over_a_blocked_event_loop_is_reported_as_one(code: int) -> None:
    assert "its event loop is blocked" in describe_exit(code)

"""Starts a process so that it can always be found, and reports when it ended.

Each is the leader of a session of its own; when it ends, whatever it left in its group ends too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from gym.labels import BLOCKED, EXIT_BLOCKED
from gym.runtime.identity import Identity, find_session, identify, is_alive

LISTENER_FD = 3
CONFIG_FD = 4
GUARD = Path(__file__).with_name("exec_guard.py")  # it runs without site packages

UNKNOWN_CODE = 256  # of a process that is not a child of ours
LOOK_EVERY = 0.1

Remember = Callable[[Identity], None]


@dataclass(frozen=True)
class ProcessSpec:
    """What is to run. Equal specs need no restart."""

    id: str  # "mcqa-1"
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)  # may hold secrets
    cwd: Path
    log: Path
    drain_seconds: float
    document: bytes = field(default=b"", repr=False)  # what /dev/fd/4 shall hold; it has no place on the disk
    activated: bool = False  # gets its listener as systemd passes it
    digest: str = ""  # of what it was made from, as the plan has it
    digests: Mapping[str, str] = field(default_factory=dict)  # the same for each replica in it, where it has several


class Adopted:
    """A process that an earlier supervisor has started: not our child, known by its identity and its marker."""

    def __init__(self, identity: Identity, marker: str, *, healthy: bool) -> None:
        self.identity = identity
        self.healthy = healthy  # when it was last looked at
        self.marker = marker
        self.pid = identity.pid
        self.returncode: int | None = None

    def members(self) -> Iterable[Identity]:
        return find_session(self.identity, self.marker)


class Forked(Adopted):
    """A fork of a process that has imported the SDK: its parent, not we, learns how it ends, and reports it."""

    def __init__(self, identity: Identity, marker: str, ended: asyncio.Future[int]) -> None:
        super().__init__(identity, marker, healthy=False)
        self.ended = ended


Process = subprocess.Popen[bytes] | Adopted


def start_process(
    spec: ProcessSpec, listener: socket.socket | None, remember: Remember, *, tied: bool = True
) -> subprocess.Popen[bytes]:
    """Spawned, remembered, and only then let go. `tied`: it ends with this process."""
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(spec.log.open("ab"))
        inherited = inherited_files(spec, listener, stack)
        pairs = ",".join(f"{source}:{target}" for target, source in inherited.items())
        options = [str(os.getpid()), pairs, *(["--activated"] if spec.activated else []), *(["--tied"] if tied else [])]
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARD), *options, "--", *spec.argv],
            cwd=spec.cwd,
            env=dict(spec.env),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=tuple(inherited.values()),
            start_new_session=True,
        )
        assert process.stdin is not None
        try:
            let_go(process.pid, process.stdin, log, spec, remember)
        except BaseException:
            process.wait()
            raise
        return process


def let_go(pid: int, go: IO[bytes], log: IO[bytes], spec: ProcessSpec, remember: Remember) -> Identity | None:
    """Written down first; a process that reads no word on `go` ends."""
    with contextlib.closing(go):
        found = identify(pid)
        if found is not None:
            remember(found)
            stamp = time.strftime("%Y-%m-%d %H:%M:%S")
            log.write(f"--- {spec.id} starts: pid {pid}, {stamp} ---\n".encode())
            log.flush()
            with contextlib.suppress(BrokenPipeError):
                go.write(b"g")
                go.flush()
    return found


def inherited_files(spec: ProcessSpec, listener: socket.socket | None, stack: contextlib.ExitStack) -> dict[int, int]:
    """The descriptors that it shall have beside its three streams -> where they lie here."""
    found = {LISTENER_FD: listener.fileno()} if listener is not None else {}
    if spec.document:
        found[CONFIG_FD] = stack.enter_context(nameless_file(spec.document)).fileno()
    return found


def nameless_file(content: bytes) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 (the caller's to close)
    file.write(content)
    file.flush()
    file.seek(0)
    return file


class Reaper:
    """Turns the end of child processes into futures. One for a supervisor: SIGCHLD is the process's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._children: dict[subprocess.Popen[bytes], asyncio.Future[int]] = {}
        loop.add_signal_handler(signal.SIGCHLD, self._reap)

    def exit_of(self, process: Process) -> asyncio.Future[int]:
        future: asyncio.Future[int] = self._loop.create_future()
        if isinstance(process, Forked):
            return process.ended
        if isinstance(process, Adopted):
            self.look_after(process, future)
            return future
        self._children[process] = future
        self._reap()
        return future

    def look_after(self, process: Adopted, future: asyncio.Future[int]) -> None:
        """The end of a process that is not our child is found by polling, some microseconds each."""
        if future.done():
            return
        if is_alive(process.identity):
            self._loop.call_later(LOOK_EVERY, self.look_after, process, future)
            return
        kill_group(process)
        process.returncode = UNKNOWN_CODE
        future.set_result(UNKNOWN_CODE)

    def _reap(self) -> None:
        for process, future in list(self._children.items()):
            if not _has_ended(process):
                continue
            # Before its pid is given back: as long as the leader is a zombie the group's number is surely ours.
            kill_group(process)
            code = process.wait()
            del self._children[process]
            if not future.done():
                future.set_result(code)


def send_signal(process: Process, number: int) -> None:
    """Never `Popen.send_signal`: that one reaps a process which has just ended, and the reaper finds no child."""
    ended = not is_alive(process.identity) if isinstance(process, Adopted) else process.returncode is not None
    if not ended:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def kill_group(process: Process) -> None:
    if isinstance(process, Adopted):
        for one in process.members():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one.pid, signal.SIGKILL)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def oom_kills() -> int:
    """How often the kernel has killed for want of memory since it booted; 0 where it does not say."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    if not hasattr(os, "waitid"):  # macOS before Python 3.13
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def describe_exit(code: int) -> str:
    """`exit code 1`, `ended by SIGKILL`."""
    if code == UNKNOWN_CODE:
        return "it ended; how is not known, for an earlier supervisor had started it"
    if code == EXIT_BLOCKED:
        return f"ended itself: {BLOCKED}; its log names the line"
    if code == -signal.SIGPROF:
        return f"ended by SIGPROF: {BLOCKED} in code that lets nothing else run; its log has the stack"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"

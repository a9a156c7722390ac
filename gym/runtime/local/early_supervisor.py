"""The supervisor of a stack that does not run yet: begun while `gym up` still reads its configuration.

It is a fork of the command, taken while that has no thread and has loaded what both need: that saves a quarter of a
second of CPU, and as much waiting. It becomes a supervisor when it is given the stack's folder, and ends with the
command before. Where there is none (no Linux, threads, no fork) a supervisor starts from nothing, as after a kill.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Final

SHARED: Final = (
    "gym.config.loader",
    "gym.plan.plan_diff",
    "gym.render.launch_document",
    "gym.runtime.local.stack_order",
)
OWN: Final = ("gym.runtime.local.supervisor", "gym.http.pool", "uuid")
CONTROL_FD: Final = 3
ABOVE: Final = 64  # where a descriptor is safe until those below have their places
PR_SET_PDEATHSIG: Final = 1
INTERRUPTS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class EarlySupervisor:
    """Of this process, which is one command."""

    def __init__(self) -> None:
        self._pid = 0
        self._connection: socket.socket | None = None

    def begin(self) -> list[str] | None:
        """None in the command. In the fork, once it is a supervisor: its arguments."""
        if sys.platform != "linux" or threading.active_count() > 1:
            return None
        for name in SHARED:
            import_module(name)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        command = os.getpid()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
        try:
            self._pid = os.fork()
            if self._pid == 0:
                ours.close()
                return _become(theirs, command, before)
            self._connection = ours
        except OSError:  # too many processes: one that starts from nothing will say so
            ours.close()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        return None

    def hand_over(self, home: Path, listener: socket.socket, log: IO[bytes]) -> bool:
        """True: it is the supervisor of this stack from now on, and outlives the command."""
        if self._connection is None:
            return False
        try:
            socket.send_fds(self._connection, [os.fsencode(home)], [listener.fileno(), log.fileno()])
        except OSError:
            self.drop()
            return False
        _, status = os.waitpid(self._pid, 0)
        self._forget()
        return status == 0  # else it was killed before it had read this

    def drop(self) -> None:
        """It is not needed."""
        if self._connection is not None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._forget()

    def _forget(self) -> None:
        assert self._connection is not None
        self._connection.close()
        self._connection, self._pid = None, 0


EARLY: Final = EarlySupervisor()


def _become(connection: socket.socket, command: int, mask: set[int | signal.Signals]) -> list[str]:
    """Nothing of the command may go on in a fork of it, whatever happens here."""
    try:
        _let_go_of_the_command(connection, command)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for name in OWN:
            import_module(name)
        home, descriptors, _, _ = socket.recv_fds(connection, 65536, 2)
        if not home:
            os._exit(0)
        connection.close()
        _detach()
        return _supervise(os.fsdecode(home), *descriptors)
    except BaseException:
        os._exit(1)
        raise


def _let_go_of_the_command(connection: socket.socket, command: int) -> None:
    """It ends with it, and holds nothing that was passed to it."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()
    _end_with_parent(signal.SIGKILL)
    if os.getppid() != command:
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    for descriptor in [int(one.name) for one in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2 and descriptor != connection.fileno():
            with suppress(OSError):
                os.close(descriptor)


def _end_with_parent(number: int) -> None:
    import ctypes  # noqa: PLC0415  (the command itself needs none of this, as below)

    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)


def _detach() -> None:
    """The command sees its fork end; the process that goes on belongs to init."""
    if os.fork():
        os._exit(0)


def _supervise(home: str, listener: int, log: int) -> list[str]:
    """Two processes as ever, the warden and its supervisor; this one becomes the warden, its fork returns."""
    import random  # noqa: PLC0415

    from gym.runtime.local import warden  # noqa: PLC0415  (a script: it is imported for its words)
    from gym.runtime.local.listeners import SUPERVISOR  # noqa: PLC0415  (loaded by now; the command need not load it)

    os.chdir(home)
    _place({CONTROL_FD: listener, 1: log, 2: log})
    kept, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    argv = [sys.executable, "-P", "-m", SUPERVISOR, home]
    if pid := os.fork():
        for descriptor in (CONTROL_FD, kept.fileno()):
            os.set_inheritable(descriptor, True)
        first = f"{pid}:{kept.fileno()}"
        os.execv(sys.executable, [sys.executable, "-I", "-S", warden.__file__, warden.FIRST, first, "--", *argv])
    kept.close()
    if not sys.flags.safe_path:
        del sys.path[0]  # the folder of the command's script, or of who typed it
    random.seed()  # or it would draw what the command draws
    words = [warden.STORE, str(theirs.detach()), warden.KEPT, f"control:{CONTROL_FD}"]
    show_as(argv + words)
    return [home, *words]


def _place(targets: dict[int, int]) -> None:
    import fcntl  # noqa: PLC0415

    moved = {target: fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, ABOVE) for target, source in targets.items()}
    for source in set(targets.values()):
        os.close(source)
    for target, source in moved.items():
        os.dup2(source, target, inheritable=target < CONTROL_FD)
        os.close(source)


def show_as(argv: Sequence[str]) -> None:
    """To `ps`, for which it would bear the command's words. Longer ones reach into the place of the environment."""
    import ctypes  # noqa: PLC0415

    for name, value in os.environb.items():  # a copy elsewhere, for what we start
        os.putenv(name, value)
    with suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        begin, end, also_from, also_to = (int(fields[number - 3]) for number in range(48, 52))
        room = (also_to if also_from == end else end) - begin
        text = " ".join(argv).encode("utf-8", "surrogateescape")
        if begin and len(text) < room:
            ctypes.memmove(begin, text.ljust(room, b"\0"), room)
        Path("/proc/self/comm").write_text(Path(sys.executable).name)

"""Stays beside a stack's supervisor: should that one be killed, another carries on with the same sockets and order.

Run as a script without site packages: warden.py -- ARGV...; descriptor 3 is the control socket. The servers live on
meanwhile; what only a process can hold (sockets, the order with its secrets) is kept here and lies on no disk.
After a warden that was killed: warden.py --kept NAME:FD,... --after FD -- ARGV...; it begins when FD, a pipe, ends.
Where the first supervisor runs already, as a child of this process: warden.py --first PID:FD -- ARGV...
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time

CONTROL_FD = 3
PR_SET_CHILD_SUBREAPER = 36
KEPT, STORE, AFTER, FIRST = "--kept", "--store", "--after", "--first"
ORDER = "order"  # the name under which the supervisor keeps what the stack is to be
SILENT_SECONDS = 30.0  # the supervisor beats every second; one that was stopped or hangs is replaced
MAX_EXITS, WITHIN = 5, 60.0  # then it fails at each start; `gym up` and `gym down` find the servers
MAX_FDS = 4
PIECE = 65536


def main(arguments: list[str]) -> int:
    ours, argv = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    kept = _read_kept(ours) or {"control": CONTROL_FD}
    exits: list[float] = []
    woken = _listen_to_signals()
    _adopt_orphans()
    started = _read_first(ours)
    while True:
        pid, connection = started or _start(argv, kept)
        started = None
        with connection:
            code = _attend(pid, connection, kept, woken)
        if code == 0 or ORDER not in kept:
            return abs(code)
        exits = [one for one in exits if time.monotonic() - one < WITHIN] + [time.monotonic()]
        if len(exits) >= MAX_EXITS:
            _say(f"the supervisor ended {len(exits)} times in {WITHIN:g} s: it is not restarted")
            return 1
        _say(f"the supervisor ended ({code}): another one carries on")
        time.sleep(0.05 * len(exits))


def _read_kept(ours: list[str]) -> dict[str, int]:
    """What the supervisor of a warden that was killed hands over; it has ended when this returns."""
    given = dict(zip(ours[::2], ours[1::2], strict=True))
    if AFTER in given:
        os.read(int(given[AFTER]), 1)
        os.close(int(given[AFTER]))
    pairs = (one.rpartition(":") for one in given.get(KEPT, "").split(",") if one)
    return {name: int(descriptor) for name, _, descriptor in pairs}


def _read_first(ours: list[str]) -> "tuple[int, socket.socket] | None":
    given = dict(zip(ours[::2], ours[1::2], strict=True)).get(FIRST)
    if given is None:
        return None
    pid, _, descriptor = given.partition(":")
    os.set_inheritable(int(descriptor), False)
    return int(pid), socket.socket(fileno=int(descriptor))


def _start(argv: list[str], kept: dict[str, int]) -> "tuple[int, socket.socket]":
    """A supervisor that gets what is kept, and our end of the connection on which it gives more."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with theirs:
        named = ",".join(f"{name}:{descriptor}" for name, descriptor in kept.items())
        words = [STORE, str(theirs.fileno()), KEPT, named]
        process = subprocess.Popen([*argv, *words], pass_fds=(theirs.fileno(), *kept.values()))
    process.returncode = 0  # it is reaped here, not there
    return process.pid, ours


def _attend(pid: int, ours: socket.socket, kept: dict[str, int], woken: int) -> int:
    """One supervisor to its end; what it gives to keep outlives it."""
    answered = time.monotonic()
    while True:
        ready = select.select([ours.fileno(), woken], [], [], 1.0)[0]
        if ours.fileno() in ready:
            _take(ours, kept)
            answered = time.monotonic()
        if woken in ready and signal.SIGTERM in os.read(woken, 64):
            os.kill(pid, signal.SIGTERM)
        code = _reap(pid)
        if code is not None:
            while select.select([ours], [], [], 0)[0]:  # its last words
                _take(ours, kept)
            return code
        if not ready and time.monotonic() - answered > SILENT_SECONDS:
            _say(f"the supervisor has been silent for {SILENT_SECONDS:g} s: killed")
            os.kill(pid, signal.SIGKILL)
            answered = time.monotonic()


def _take(ours: socket.socket, kept: dict[str, int]) -> None:
    """`keep NAME` with a descriptor, `drop NAME`, or nothing: a sign of life."""
    data, descriptors, _, _ = socket.recv_fds(ours, PIECE, MAX_FDS)
    message = json.loads(data or b"{}")
    for name in (message.get("keep"), message.get("drop")):
        if name in kept and (descriptors or "drop" in message):
            os.close(kept.pop(name))
    if "keep" in message and descriptors:
        kept[message["keep"]] = descriptors[0]


def _reap(supervisor: int) -> int | None:
    """How the supervisor ended, None while it lives. Others that ended are orphans of an earlier one."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == supervisor:
                code = os.waitstatus_to_exitcode(found[1])
    return code


def _listen_to_signals() -> int:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return reader


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} WARDEN {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

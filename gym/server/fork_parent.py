"""`python -P -m gym.server.fork_parent`: has imported the SDK, and forks servers, each in a few milliseconds.

Its supervisor orders a server by the socket on descriptor 0; a fork becomes it, with the descriptors, the environment
and the folder that it would have had from a start of its own. The parent reports how its forks ended; it ends with its
supervisor, and they do not. It never runs anything of a server itself.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import random
import select
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import orjson

from gym import labels

PRELOADED: Final = ("serve", "agent", "model", "resources", "session", "trace_store", "policy_upstreams", "upstream")
LONGEST_ORDER: Final = 4096  # what is longer lies in a file that comes with it
MAX_DESCRIPTORS: Final = 8
LONGEST_NAME: Final = 120  # of a replica, in the environment that others see
PR_SET_PDEATHSIG: Final = 1
_STAT_ARGV, _STAT_ENVIRON = 48 - 3, 50 - 3  # proc(5): where either begins and, one further, ends


@dataclass(frozen=True)
class Order:
    """A server that shall be, and its descriptors: by their names, where they lie here."""

    argv: tuple[str, ...]  # module, arguments
    env: Mapping[str, str]
    cwd: str
    targets: Mapping[int, int]  # descriptor it shall have -> where it lies
    tied: bool


def main() -> int:
    order = _serve_orders(socket.socket(fileno=os.dup(0)))
    return 0 if order is None else _become(order)  # a fork has left the loop before it is a server


def _serve_orders(supervisor: socket.socket) -> Order | None:
    """An order, in the fork that shall be it; None in the parent, when its supervisor is gone."""
    gc.disable()  # it would look at what is imported again and again
    for name in PRELOADED:
        import_module(f"gym.server.{name}")
    gc.enable()
    gc.collect()
    gc.freeze()  # a collection in a fork would write to every page that they share
    ended, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    supervisor.send(b'{"ready":true}')
    waiting = select.poll()
    waiting.register(supervisor, select.POLLIN)
    waiting.register(ended, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in waiting.poll()}
        if ended in ready:
            with suppress(BlockingIOError):
                os.read(ended, 4096)
            _report_ended(supervisor)
        if supervisor.fileno() in ready:
            message, descriptors, _, _ = socket.recv_fds(supervisor, LONGEST_ORDER, MAX_DESCRIPTORS)
            if not message:
                return None
            order = _fork(supervisor, message, descriptors)
            if order is not None:
                for one in (ended, wakes):
                    os.close(one)
                supervisor.close()
                return order


def _fork(supervisor: socket.socket, message: bytes, descriptors: list[int]) -> Order | None:
    """The order in the fork, None in the parent."""
    waits, leads = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(leads)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        return _read_order(orjson.loads(message), descriptors)
    for one in (leads, *descriptors):
        os.close(one)
    os.read(waits, 1)  # it leads a session of its own by now, and is found and ended as one that does
    os.close(waits)
    supervisor.send(orjson.dumps({"started": pid}))
    return None


def _read_order(message: Mapping[str, Any], descriptors: list[int]) -> Order:
    document, *rest = descriptors
    with os.fdopen(document, "rb") as file:
        file.seek(0)
        text = orjson.loads(file.read())
    targets = dict(zip(message["targets"], rest, strict=True))
    return Order(tuple(text["argv"]), text["env"], text["cwd"], targets, message["tied"])


def _report_ended(supervisor: socket.socket) -> None:
    """What a fork has left in its group ends first: as long as it is unreaped, the group's number is surely its own."""
    with suppress(ChildProcessError):
        while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(found.si_pid, signal.SIGKILL)
            _, status = os.waitpid(found.si_pid, 0)
            with suppress(OSError):  # a supervisor that is gone: the next poll says so
                supervisor.send(orjson.dumps({"ended": found.si_pid, "code": os.waitstatus_to_exitcode(status)}))


def _become(order: Order) -> int:
    """Waits until it is written down, as every process of a stack does; then it is the server."""
    parent = os.getppid()
    if order.tied:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    _place(order.targets)
    module, *arguments = order.argv
    show_as(f"{sys.executable} -P -m {' '.join(order.argv)}", order.env.get(labels.ENV_REPLICA, ""))
    if os.read(0, 1) != b"g" or (order.tied and os.getppid() != parent):
        return 1
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(order.env)
    os.chdir(order.cwd)
    random.seed()  # or each fork would draw what its siblings draw
    sys.argv[1:] = arguments
    code: int = import_module(module).main()
    return code


def _place(targets: Mapping[int, int]) -> None:
    """Each descriptor gets its number; nothing else that the parent holds stays open."""
    beyond = max(targets) + 1
    moved = {target: _duplicate_above(source, beyond + MAX_DESCRIPTORS) for target, source in targets.items()}
    for target, source in moved.items():
        os.dup2(source, target)
    os.closerange(beyond, max(moved.values()) + 1)


def _duplicate_above(descriptor: int, lowest: int) -> int:
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)


def show_as(command: str, replica: str) -> None:
    """To `ps`, and to a search for a stack's processes: /proc shows the memory that a program began with."""
    try:
        fields = Path("/proc/self/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        _overwrite(fields, _STAT_ARGV, "cmdline", b"", command.encode())
        _overwrite(fields, _STAT_ENVIRON, "environ", f"{labels.ENV_REPLICA}=".encode(), replica.encode())
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EACCES):
            raise


def _overwrite(fields: list[str], index: int, file: str, prefix: bytes, value: bytes) -> None:
    begin, end = int(fields[index]), int(fields[index + 1])
    text = Path(f"/proc/self/{file}").read_bytes()
    at = 0 if not prefix else (b"\0" + text).find(b"\0" + prefix)
    if begin == 0 or at < 0 or len(text) != end - begin:
        return
    room = end - begin if not prefix else text.index(b"\0", at) - at
    ctypes.memmove(begin + at, (prefix + value)[: room - 1].ljust(room, b"\0"), room)


if __name__ == "__main__":
    sys.exit(main())

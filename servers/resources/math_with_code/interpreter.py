"""Runs inside a sandbox, with nothing but its Python: one namespace that lives from one piece of code to the next.

Frames both ways are four bytes of length and JSON: {"code"} comes, {"success", "stdout", ...} goes.
"""

# ruff: noqa: SIM115, PTH123
# (descriptors outlive their blocks)

from __future__ import annotations

import ast
import fcntl
import importlib
import importlib.util
import itertools
import json
import linecache
import os
import resource
import signal
import sys
from typing import Any

from gym.sandbox.guest.framing import read_frame, write_frame

SHORT = (("np", "numpy"), ("numpy", "numpy"), ("scipy", "scipy"), ("pd", "pandas"), ("pandas", "pandas"))
STREAMS = ("stdin", "stdout", "stderr")
FILE = 16 << 20
LATE = 6  # what sleeps may take so many times as long as what computes


class TooLate(BaseException):
    """No `except Exception` of the code catches it."""


def main() -> None:
    """Serves until its input ends."""
    commands, replies = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 64), fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 64)
    settings = json.loads(read_frame(commands))
    if settings["base"]:
        os.chdir(settings["base"])
        os.environ["HOME"] = settings["base"]
    streams = open_streams()
    limit(settings["memory"])
    sys.path[:] = [path for path in sys.path if path]
    space: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    preload(space)
    own = os.getpid()
    os.register_at_fork(after_in_child=lambda: os.closerange(64, 256))  # what it forks does not answer for it
    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, give_up)
    lacks = [name for name in settings["wanted"] if importlib.util.find_spec(name) is None]
    write_frame(replies, {"ready": True, "lacks": lacks})
    for at in itertools.count(1):
        try:
            code = json.loads(read_frame(commands))["code"]
        except EOFError:
            return
        outcome = perform(code, f"<call {at}>", space, settings["seconds"])
        if os.getpid() != own:
            os._exit(0)
        out, err = (taken(at, held, settings["output"]) for at, held in enumerate(streams, 1))
        write_frame(replies, {"success": "error_message" not in outcome, "stdout": out, "stderr": err, **outcome})


def open_streams() -> tuple[int, int]:
    """Output goes into files in memory, that of child processes too; too much of it is an error of the code."""
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    held = [fcntl.fcntl(os.memfd_create("output"), fcntl.F_DUPFD_CLOEXEC, 64) for _ in (1, 2)]
    for fd in held:
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND | os.O_RDWR)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    for at, fd in enumerate(held, 1):
        put_stream(at, fd)
    return held[0], held[1]


def put_stream(at: int, held: int) -> None:
    """Line by line, so that what a child process writes comes in its place."""
    os.dup2(held, at)
    stream = open(at, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    setattr(sys, STREAMS[at], stream)


def limit(memory: int) -> None:
    for what, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, FILE), (resource.RLIMIT_CORE, 0)):
        had = resource.getrlimit(what)[1]
        least = value if had == resource.RLIM_INFINITY else min(value, had)
        resource.setrlimit(what, (least, had))


def preload(space: dict[str, Any]) -> None:
    """Under the names that the tool promises, those that are there. Threads for every core would take all memory."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for short, name in SHORT:
        try:
            space[short] = importlib.import_module(name)
        except ImportError:
            continue


def give_up(number: int, frame: Any) -> None:
    raise TooLate("code timed-out")


def perform(code: str, name: str, space: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The value of the last line that is an expression, or the error; either way what was defined stays."""
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    outcome: dict[str, Any] = {}
    try:
        try:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            signal.setitimer(signal.ITIMER_REAL, seconds * LATE)
            outcome["result"] = evaluate(code, name, space)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:  # noqa: BLE001 (whatever the code raises is the model's to read)
        outcome = {"error_message": describe(error)}
    return outcome


def evaluate(code: str, name: str, space: dict[str, Any]) -> Any:
    tree = ast.parse(code, name)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    exec(compile(tree, name, "exec"), space)
    if not isinstance(last, ast.Expr):
        return None
    value = eval(compile(ast.Expression(last.value), name, "eval"), space)
    return None if value is None else str(value)[:4096]


def describe(error: BaseException) -> str:
    try:
        if isinstance(error, SystemExit):
            return "SystemExit: the interpreter goes on"
        return (str(error) or type(error).__name__)[:4096]
    except BaseException:  # noqa: BLE001 (the code's own __str__)
        return type(error).__name__


def taken(at: int, held: int, max_bytes: int) -> str:
    """Head and tail of what was written, and nothing of it for the next call, whatever was done to the stream."""
    try:
        stream = getattr(sys, STREAMS[at])
        stream.flush()
        whole = stream.fileno() == at and os.path.samestat(os.fstat(at), os.fstat(held))
    except Exception:  # noqa: BLE001 (the code closed it, or put another in its place)
        whole = False
    if not whole:
        put_stream(at, held)
    size = os.fstat(held).st_size
    head = os.pread(held, min(size, max_bytes), 0)
    if size > max_bytes:
        tail = os.pread(held, max_bytes // 2, size - max_bytes // 2)
        head = head[: max_bytes - max_bytes // 2] + b"\n[... %d bytes cut ...]\n" % (size - max_bytes) + tail
    os.ftruncate(held, 0)
    return head.decode("utf-8", "replace")

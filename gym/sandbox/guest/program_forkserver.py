"""Runs inside a sandbox, with nothing but its Python: forks a clean, isolated process for each program it gets.

It never reads a request itself: a child does, forked for each request, so that nothing of one is left for the next.
"""

# Frames both ways are four bytes of length and JSON. Programs never have the two pipes that they travel on.
# First {"base", "wanted"}; then requests {"code", "fn", "inputs", "cpu", "wall", "memory", "output"}; for each one
# outcome after the other, and {"done", "differs"} when everything of the request is gone. Any Python from 3.8 on.

# ruff: noqa: PTH102, PTH109, PTH112, PTH208, SIM115
# (descriptors outlive their blocks, and what is imported costs each program its time)

from __future__ import annotations

import ctypes
import gc
import importlib.util
import json
import os
import select
import shutil
import sys
import tempfile
from typing import Any

from gym.sandbox.guest.baseline import Baseline
from gym.sandbox.guest.cleanup import kill_all, remove
from gym.sandbox.guest.framing import read_frame, write_frame
from gym.sandbox.guest.limits import make_filter
from gym.sandbox.guest.program import be_program, make_space
from gym.sandbox.guest.supervise import MAX_TEXT, Supervisor

PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36


def main() -> None:
    """Serves until its input ends."""
    settings = json.loads(read_frame(0))
    sys.path[:] = [path for path in sys.path if path]  # the working directory is not searched for modules
    base, isolated = settings["base"] or os.getcwd(), bool(settings["base"])
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    if libc is not None:
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    space = make_space()
    base = base if isolated else tempfile.mkdtemp(prefix="programs-", dir=base)
    missing = [name for name in settings["wanted"] if importlib.util.find_spec(name) is None]
    baseline = Baseline() if isolated else None
    gc.collect()
    gc.freeze()
    write_frame(1, {"ready": os.getpid(), "walls": make_filter(1) is not None, "lacks": missing})
    while select.select([0], [], [])[0]:
        request_process = os.fork()
        if request_process == 0:
            serve_request(base, libc, space, alone=isolated)
        _, status = os.waitpid(request_process, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 3:
            os._exit(0)  # the input ended
        kill_all(os.getpid())
        differs = baseline.wipe() if baseline is not None else renew(base)
        write_frame(1, {"done": True, "broken": status != 0, "differs": differs})


def renew(base: str) -> str:
    """Without isolation only our own folder can be emptied."""
    remove(base)
    os.mkdir(base, 0o700)
    return ""


# The request process: one request, input after input, each in a process of its own.


def serve_request(base: str, libc: Any, space: Any, *, alone: bool) -> None:
    try:
        asked = {**json.loads(read_frame(0)), "alone": alone}
    except EOFError:
        os._exit(3)
    try:
        if libc is not None:
            libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for given in asked["inputs"]:
            outcome = run(asked, given, base, libc, space)
            write_frame(1, outcome)
            if outcome["end"] != "ok":
                break
    except BaseException as error:  # noqa: BLE001 (a forked process must not run on in its parent's code)
        write_frame(1, {"end": "failed", "error": repr(error)[:MAX_TEXT]})
        os._exit(4)
    os._exit(0)


def run(asked: Any, given: str, base: str, libc: Any, space: Any) -> dict[str, Any]:
    folder = tempfile.mkdtemp(prefix="p", dir=base)
    source = open_input(given)
    pipes = [os.pipe() for _ in range(3)]
    pid = os.fork()
    if pid == 0:
        be_program(asked, given, folder, source, [theirs for _, theirs in pipes], libc, space)
    os.close(source)
    for _, theirs in pipes:
        os.close(theirs)
    watch = Supervisor(pid, asked, [ours for ours, _ in pipes])
    try:
        watch.until_ended()
    finally:
        status, use = watch.reap()
        kill_all(os.getpid())
        for ours, _ in pipes:
            os.close(ours)
        shutil.rmtree(folder, ignore_errors=True)  # what is left is wiped when all of the request is done
    return watch.outcome(status, use)


def open_input(given: str) -> int:
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("input")
    else:
        file = tempfile.TemporaryFile()
        fd = os.dup(file.fileno())
        file.close()
    view = memoryview(given.encode("utf-8", "surrogatepass"))
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd

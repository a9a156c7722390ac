"""The process of one program: sets up streams, limits and the seccomp filter, runs the code, reports the outcome."""

# ruff: noqa: SIM115
# (descriptors outlive their blocks, and what is imported costs each program its time)

from __future__ import annotations

import atexit
import bisect
import collections
import copy
import datetime
import decimal
import fcntl
import fractions
import functools
import gc
import heapq
import io
import itertools
import json
import linecache
import math
import operator
import os
import platform
import queue
import random
import re
import statistics
import string
import sys
import tempfile
import threading
import traceback
import types
import typing
from typing import Any

from gym.sandbox.guest.limits import limit

OPENED: tuple[str, ...] = (
    "string",
    "re",
    "datetime",
    "collections",
    "heapq",
    "bisect",
    "copy",
    "math",
    "random",
    "statistics",
)
OPENED += ("itertools", "functools", "operator", "io", "sys", "json", "builtins", "typing")
PRELUDE = "".join(f"from {name} import *\n" for name in OPENED) + (
    "import string, re, datetime, collections, heapq, bisect, copy, math, random, statistics, itertools, functools\n"
    "import operator, io, sys, json\n"
)
USUAL = (atexit, bisect, collections, copy, datetime, decimal, fractions, functools, heapq, itertools, math, operator)
USUAL_TOO = (platform, queue, random, re, statistics, string, threading, typing)  # imported once, for all programs
PROGRAM = "<program>"
DEPTH = 50_000
DIGITS = 50_000
MAX_TEXT = 4096  # of an error's text


def make_space() -> dict[str, Any]:
    """The names that every program finds."""
    sys.setrecursionlimit(DEPTH)
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(DIGITS)
    space: dict[str, Any] = {}
    exec(compile(PRELUDE, "<prelude>", "exec"), space)
    return {key: value for key, value in space.items() if not key.startswith("__")}


def be_program(asked: Any, given: str, folder: str, source: int, fds: list[int], libc: Any, space: Any) -> None:
    try:
        os.setsid()
        out, err, say = fds
        say = move_streams(source, out, err, say)
        os.chdir(folder)
        os.environ.update(HOME=folder, TMPDIR=folder, OMP_NUM_THREADS="1")
        limit(asked, libc)
        sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8", errors="surrogateescape")
        sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8", errors="surrogateescape")
        sys.stderr = io.TextIOWrapper(open(2, "wb", closefd=False), encoding="utf-8", errors="backslashreplace")
        vars(sys).update(__stdin__=sys.stdin, __stdout__=sys.stdout, __stderr__=sys.stderr)
        sys.argv = ["program.py"]
        tempfile.tempdir = None
        atexit._clear()
        gc.unfreeze()
        random.seed(0)  # every fork gets the same seed, so that a program does the same every time
        outcome = perform(asked["code"], asked["fn"], given, space)
    except BaseException as error:  # noqa: BLE001 (whatever it was, this process ends here)
        outcome = describe(error)
    finish(say, outcome)


def move_streams(source: int, out: int, err: int, say: int) -> int:
    """0, 1, 2 are the program's, 3 is where it says how it ended; it has no other."""
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 16) for fd in (source, out, err, say)]
    for target, fd in enumerate(high):
        os.dup2(fd, target)
    os.closerange(4, 1024)
    return 3


def perform(code: str, fn: str | None, given: str, space: Any) -> dict[str, Any]:
    """What the program says of itself: data, never a verdict."""
    name = "__main__" if fn is None else "solution"
    module = types.ModuleType(name)
    module.__dict__.update(space, stdin=sys.stdin, stdout=sys.stdout, stderr=sys.stderr)
    sys.modules[name] = module
    linecache.cache[PROGRAM] = (len(code), None, code.splitlines(True), PROGRAM)
    try:
        exec(compile_program(code), module.__dict__)
        if fn is None:
            return {"end": "ok"}
        owner = module.Solution() if "class Solution" in code else module
        if not hasattr(owner, fn):
            return {"end": "error", "error": f"there is no {fn!r} in it"}
        value = getattr(owner, fn)(*(json.loads(line) for line in given.split("\n")))
    except SystemExit:
        return {"end": "ok"} if fn is None else {"end": "error", "error": "SystemExit()"}
    return speak(value)


def compile_program(code: str) -> Any:
    try:
        return compile(code, PROGRAM, "exec", dont_inherit=True)
    except SyntaxError as error:
        if "outside function" not in str(error):
            raise
    body = "".join(f"    {line}" for line in code.splitlines(True))  # a `return` ends it, as it ends a function
    return compile(f"def program():\n{body}\nprogram()\n", PROGRAM, "exec", dont_inherit=True)


def speak(value: Any) -> dict[str, Any]:
    """By value: what JSON cannot carry is described, and equals nothing."""
    if isinstance(value, tuple):
        value = list(value)
    try:
        return {"end": "ok", "value": json.dumps(value)}
    except (TypeError, ValueError, RecursionError, MemoryError):
        pass
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 (the program's own __float__)
        return {"end": "ok", "unfit": repr(type(value))[:MAX_TEXT]}
    return {"end": "ok", "value": json.dumps(number)}


def describe(error: BaseException) -> dict[str, Any]:
    try:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_globals is globals():
            trace = trace.tb_next
        text = "".join(traceback.format_exception(type(error), error, trace, limit=-10))
        return {"end": "error", "error": repr(error)[:MAX_TEXT], "traceback": text[-MAX_TEXT:]}
    except BaseException:  # noqa: BLE001 (the program's own __repr__)
        return {"end": "error", "error": "an error that does not describe itself"}


def finish(say: int, outcome: dict[str, Any]) -> None:
    """As Python ends: threads, what was registered, what was not written yet."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:  # noqa: BLE001 (the program's own callbacks and streams)
        outcome = describe(error) if outcome["end"] == "ok" else outcome
    try:
        write_frame_plain(say, outcome)
    finally:
        os._exit(0)


def write_frame_plain(fd: int, outcome: dict[str, Any]) -> None:
    view = memoryview(json.dumps(outcome).encode())
    while view:
        view = view[os.write(fd, view) :]

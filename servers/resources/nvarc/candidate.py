"""Runs a candidate's `transform` in a process of its own, which ends with the answer, with its limits or at its time.

`run_candidate` is all that the server knows of it: code that needs stronger walls can be run elsewhere behind it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from gym.wire.failures import RolloutError

JAIL = Path(__file__).with_name("jail.py")
MAX_OUTPUT = 4 * 1024 * 1024  # bytes; a grid needs a few hundred
PATIENCE = 6.0  # times the CPU time, of wall time: a busy machine changes no reward


class Ran(NamedTuple):
    value: Any  # what transform returned
    error: str = ""


async def run_candidate(code: str, inputs: list[list[int]], *, seconds: int) -> Ran:
    """`transform(inputs)` of the code, within so many seconds of CPU time. The expected output never goes there."""
    question = json.dumps({"code": code, "input": inputs, "seconds": seconds}).encode()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-B", str(JAIL), *_site_packages()),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env={"PATH": os.defpath, "OPENBLAS_NUM_THREADS": "1"},
        cwd="/",
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds * PATIENCE + 10):
            told = await _ask(process, question)
    except TimeoutError:
        if _is_asleep(process.pid):
            return Ran(None, "transform waits for something that does not come")
        raise RolloutError("timeout", f"transform got no {seconds} s of CPU time on this machine") from None
    finally:
        await _end(process)
    return _read(told, process.returncode or 0, seconds)


async def _ask(process: Process, question: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(ConnectionError):
        process.stdin.write(question)
        await process.stdin.drain()
        process.stdin.close()
    told = bytearray()
    # One line: what the code has started may hold the pipe open.
    while len(told) <= MAX_OUTPUT and not told.endswith(b"\n") and (chunk := await process.stdout.read(65536)):
        told += chunk
    if len(told) <= MAX_OUTPUT:
        await process.wait()
    return bytes(told)


async def _end(process: Process) -> None:
    """With all that it started: they share its process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _read(told: bytes, code: int, seconds: int) -> Ran:
    if len(told) > MAX_OUTPUT:
        return Ran(None, "transform returned too much")
    if code in (-signal.SIGXCPU, -signal.SIGKILL) and not told:
        return Ran(None, f"transform took more than {seconds} s of CPU time, or was killed")
    try:
        answer = json.loads(told)
        return Ran(answer.get("value"), str(answer.get("error", ""))[:500])
    except (ValueError, RecursionError, AttributeError):
        return Ran(None, f"transform ended its process with code {code}")


def _site_packages() -> list[str]:
    return [path for path in sys.path if path.endswith("site-packages")]


def _is_asleep(pid: int) -> bool:
    """One that waits is not slow; a system that does not tell is given the benefit of the doubt."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] == "S"
    except (OSError, IndexError, ValueError):
        return False

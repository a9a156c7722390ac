"""Patterns that rows bring along, run in a process of their own: one that never ends is killed there.

Python's `re` neither stops nor lets go of the interpreter, so neither a thread nor a cap on sizes would be a guard.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from pathlib import Path

CPU_SECONDS = 1.0  # a sane pattern needs microseconds; CPU time, so that a busy machine changes no reward
PATIENCE_SECONDS = 60.0  # for a helper that gets no CPU at all
MAX_LINE = 64 * 1024 * 1024


class BadPattern(Exception):
    """Not a regular expression."""


class SlowPattern(Exception):
    """Took too long on this text."""


class Patterns:
    """One helper process, started for the first pattern and again after one that had to be killed."""

    def __init__(self, cpu_seconds: float = CPU_SECONDS) -> None:
        self._cpu_seconds = cpu_seconds
        self._process: Process | None = None
        self._turn = asyncio.Lock()

    async def last_match(self, pattern: str, text: str) -> list[str | None] | None:
        """The groups of the last match (all of it where there are none), letter case ignored; None without a match."""
        question = json.dumps([pattern, text]).encode() + b"\n"
        async with self._turn:
            process = await self._running()
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    told = await _ask(process, question)
            except BaseException:  # whoever asks next must not hear this answer
                await self._end(process)
                raise
            if not told:
                await self._end(process)
                raise SlowPattern(f"took more than {self._cpu_seconds:g} s of CPU time on this answer")
        reply = json.loads(told)
        if "error" in reply:
            raise BadPattern(reply["error"])
        groups: list[str | None] | None = reply["groups"]
        return groups

    async def close(self) -> None:
        if self._process is not None:
            await self._end(self._process)

    async def _running(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            argv = (sys.executable, "-I", str(Path(__file__)), str(self._cpu_seconds))
            self._process = await asyncio.create_subprocess_exec(*argv, stdin=PIPE, stdout=PIPE, limit=MAX_LINE)
        return self._process

    async def _end(self, process: Process) -> None:
        self._process = None
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _ask(process: Process, question: bytes) -> bytes:
    """The helper's line; nothing when it ended over the question."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(question)
    try:
        await process.stdin.drain()
    except ConnectionError:
        return b""
    return await process.stdout.readline()


def answer(line: str) -> str:
    """One question of the helper process."""
    pattern, text = json.loads(line)
    try:
        matches = deque(re.finditer(pattern, text, re.IGNORECASE), maxlen=1)
    except (re.error, RecursionError, OverflowError) as error:
        return json.dumps({"error": str(error)})
    if not matches:
        return json.dumps({"groups": None})
    return json.dumps({"groups": list(matches[0].groups()) or [matches[0].group()]})


def main(cpu_seconds: float) -> None:
    """The kernel ends this process when one answer takes too long: SIGVTALRM has no handler here."""
    for line in sys.stdin:
        signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
        told = answer(line)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.stdout.write(told + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(float(sys.argv[1]))

"""Supervises one program: collects its output, measures its use, ends it at its limits."""

# ruff: noqa: PTH123, PTH208, SIM105
# (descriptors outlive their blocks, and what is imported costs each program its time)

from __future__ import annotations

import json
import os
import select
import signal
import time
from typing import Any

SAID = ("end", "error", "traceback", "value", "unfit")
MAX_TEXT = 4096  # of an error's text
LOOK = 0.05  # seconds between two looks at a program that runs
MOST = 4 * LOOK  # that it is taken to have slept when the next look comes late: then the machine is busy
STARVED = 0.25  # of the wall time, so much it has to have waited for the machine


class Supervisor:
    """Output and use of one program, and why it was ended."""

    def __init__(self, pid: int, asked: Any, fds: list[int]) -> None:
        self.pid = pid
        self.asked = asked
        self.received = {fd: bytearray() for fd in fds}
        self.out, self.err, self.say = fds
        self.max_bytes = {self.out: asked["output"], self.err: MAX_TEXT, self.say: asked["output"] + MAX_TEXT}
        self.began = self.looked = time.monotonic()
        self.cpu = self.idle = self.waited = 0.0
        self.delays: dict[str, float] = {}  # by thread
        self.why = ""
        self.status: tuple[int, Any] | None = None

    def until_ended(self) -> None:
        poll = select.poll()
        for fd in self.received:
            os.set_blocking(fd, False)
            poll.register(fd, select.POLLIN)
        ended = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else -1
        if ended >= 0:
            poll.register(ended, select.POLLIN)
        while not self.why:
            for fd, _ in poll.poll(LOOK * 1000):
                if fd == ended:
                    self.why = "ended"
                elif not self.read(fd):
                    poll.unregister(fd)
            if ended < 0 and self.has_ended():
                self.why = "ended"
            if time.monotonic() - self.looked >= LOOK and not self.why:
                self.look()
        if ended >= 0:
            os.close(ended)

    def read(self, fd: int) -> bool:
        """False at its end. Of errors the last is kept; too much of anything else ends the program."""
        try:
            data = os.read(fd, 1 << 18)
        except BlockingIOError:
            return True
        held = self.received[fd]
        held += data
        if len(held) > self.max_bytes[fd]:
            if fd == self.err:
                del held[:-MAX_TEXT]
            else:
                self.why = "output"
        return bool(data)

    def look(self) -> None:
        """Time is what it computes, and what it sleeps; not what the machine keeps it waiting."""
        now = time.monotonic()
        passed, cpu = now - self.looked, self.cpu
        self.looked = now
        self.cpu, waits = look_at(self.pid, self.cpu, passed, self.delays)
        self.idle += max(0.0, min(passed, MOST) - (self.cpu - cpu) - sum(waits))
        self.waited += min(passed, max(waits, default=0.0))  # of threads that wait for each other, the longest
        if self.cpu >= self.asked["cpu"] or self.idle >= self.asked["cpu"]:
            self.why = "time"
        elif now - self.began >= self.asked["wall"]:
            self.why = "wall" if self.waited >= STARVED * self.asked["wall"] else "time"

    def has_ended(self) -> bool:
        found, status, use = os.wait4(self.pid, os.WNOHANG)
        if found:
            self.status = (status, use)
        return bool(found)

    def reap(self) -> tuple[int, Any]:
        if self.status is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            _, status, use = os.wait4(self.pid, 0)
            self.status = (status, use)
        for fd in self.received:
            while self.why == "ended" and self.read_more(fd):
                pass
        return self.status

    def read_more(self, fd: int) -> bool:
        before = len(self.received[fd])
        return self.read(fd) and self.why == "ended" and len(self.received[fd]) > before

    def outcome(self, status: int, use: Any) -> dict[str, Any]:
        cpu = use.ru_utime + use.ru_stime
        why = self.why
        spent = cpu >= self.asked["cpu"] or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU)
        if why == "ended" and spent:
            why = "time"
        outcome: dict[str, Any] = {"end": why, "cpu": cpu, "seconds": time.monotonic() - self.began}
        outcome["rss"] = use.ru_maxrss
        if why == "ended":
            outcome.update(self.last_words(status))
        whole = outcome["end"] == "ok" and self.asked["fn"] is None
        out = bytes(self.received[self.out])
        outcome["stdout"] = out[: None if whole else MAX_TEXT].decode("utf-8", "replace")
        if whole and outcome["stdout"].encode() != out:
            outcome.update(end="error", error="its output is not UTF-8", stdout=outcome["stdout"][:MAX_TEXT])
        return outcome

    def last_words(self, status: int) -> dict[str, Any]:
        try:
            said = json.loads(self.received[self.say].decode("utf-8", "replace"))
        except (ValueError, RecursionError):  # the program may have written there
            said = None
        if isinstance(said, dict) and said.get("end") in ("ok", "error"):
            words = {key: said[key] for key in SAID if isinstance(said.get(key), str)}
            return {key: word.encode("utf-8", "replace").decode() for key, word in words.items()}
        error = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "it left before its end"
        return {"end": "error", "error": error, "traceback": self.received[self.err].decode("utf-8", "replace")}


def look_at(pid: int, before: float, passed: float, delays: dict[str, float]) -> tuple[float, list[float]]:
    """Its CPU seconds, and for how long since the last look each thread could have run and did not."""
    waits = []
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
            had = delays.get(thread, 0.0)
            delay = delays[thread] = run_delay(f"/proc/{pid}/task/{thread}/schedstat", had)
            still = state == b"D" or (state == b"R" and delay == had)  # what goes on is not counted there yet
            waits.append(passed if still else delay - had)
    except OSError:
        return before, waits
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), waits


def run_delay(path: str, had: float) -> float:
    """Seconds in the run queue; not every kernel reports them."""
    try:
        with open(path, "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return had

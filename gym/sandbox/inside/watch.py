"""Looks after one program: what it writes, what it uses, and why it was ended."""

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
TOLD = 4096  # of an error's text
LOOK = 0.05  # seconds between two looks at a program that runs


class Watch:
    """What a program writes and uses, and why it was ended."""

    def __init__(self, pid: int, asked: Any, fds: list[int]) -> None:
        self.pid = pid
        self.asked = asked
        self.told = {fd: bytearray() for fd in fds}
        self.out, self.err, self.say = fds
        self.most = {self.out: asked["output"], self.err: TOLD, self.say: asked["output"] + TOLD}
        self.began = self.looked = time.monotonic()
        self.cpu = self.idle = 0.0
        self.heard = False
        self.why = ""
        self.status: tuple[int, Any] | None = None

    def until_ended(self) -> None:
        poll = select.poll()
        for fd in self.told:
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
        self.heard = True
        held = self.told[fd]
        held += data
        if len(held) > self.most[fd]:
            if fd == self.err:
                del held[:-TOLD]
            else:
                self.why = "output"
        return bool(data)

    def look(self) -> None:
        """Time is what it computes, and what it sleeps; not what the machine keeps it waiting."""
        now = time.monotonic()
        cpu, asleep = look_at(self.pid, self.cpu)
        if asleep and cpu - self.cpu < 0.005 and not self.heard:
            self.idle += now - self.looked
        self.cpu, self.looked, self.heard = cpu, now, False
        if self.cpu >= self.asked["cpu"] or self.idle >= self.asked["cpu"]:
            self.why = "time"
        elif now - self.began >= self.asked["wall"]:
            self.why = "wall"

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
        for fd in self.told:
            while self.why == "ended" and self.read_more(fd):
                pass
        return self.status

    def read_more(self, fd: int) -> bool:
        before = len(self.told[fd])
        return self.read(fd) and self.why == "ended" and len(self.told[fd]) > before

    def outcome(self, status: int, use: Any) -> dict[str, Any]:
        cpu = use.ru_utime + use.ru_stime
        why = self.why
        spent = cpu >= self.asked["cpu"] or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU)
        if why == "ended" and spent:
            why = "time"
        told: dict[str, Any] = {"end": why, "cpu": cpu, "seconds": time.monotonic() - self.began}
        told["rss"] = use.ru_maxrss
        if why == "ended":
            told.update(self.last_words(status))
        whole = told["end"] == "ok" and self.asked["fn"] is None
        told["stdout"] = self.told[self.out][: None if whole else TOLD].decode("utf-8", "surrogateescape")
        return told

    def last_words(self, status: int) -> dict[str, Any]:
        try:
            said = json.loads(self.told[self.say].decode("utf-8", "surrogateescape"))
        except ValueError:
            said = None
        if isinstance(said, dict) and said.get("end") in ("ok", "error"):
            return {key: said[key] for key in SAID if isinstance(said.get(key), str)}
        error = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "it left before its end"
        return {"end": "error", "error": error, "traceback": self.told[self.err].decode("utf-8", "replace")}


def look_at(pid: int, before: float) -> tuple[float, bool]:
    """Its CPU seconds, and whether none of its threads wants to run."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        asleep = True
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
                asleep = asleep and file.read().rpartition(b")")[2].split()[0] in (b"S", b"T", b"t")
    except OSError:
        return before, False
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), asleep

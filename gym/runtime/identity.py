"""Processes by identity (pid and start time): what is ended is what was started, never a later bearer of its pid.

A process group outlives its leader; its members are known by their session and by a marker in their environment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_STATE, _SESSION, _START = 3 - 3, 6 - 3, 22 - 3  # proc(5) counts from 1; what follows the name starts at 3


@dataclass(frozen=True)
class Identity:
    """One process for all time: its pid, and when it started, in words only this machine's boot can repeat."""

    pid: int
    start: str


def identify(pid: int) -> Identity | None:
    """The process that bears this pid now; None when there is none or it is only waiting to be reaped."""
    start = _start_by_proc(pid) if _has_proc() else _start_by_ps(pid)
    return Identity(pid=pid, start=start) if start else None


def is_alive(identity: Identity) -> bool:
    return identify(identity.pid) == identity


def find_session(identity: Identity, marker: str) -> Iterator[Identity]:
    """The living of the session this process leads, itself included; a stranger's session under a reused number is not.

    Where there is no /proc only the leader can be known for sure.
    """
    if not _has_proc():
        if is_alive(identity):
            yield identity
        return
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        fields = _stat(int(entry.name))
        member = identify(int(entry.name)) if fields and int(fields[_SESSION]) == identity.pid else None
        if member and (member == identity or _carries(member.pid, marker)):
            yield member


def find_leaders(marker: str, variable: str) -> Iterator[tuple[str, Identity]]:
    """Leaders of a session whose environment holds the marker, by what `variable` says there. None where there is no
    /proc: then only what is written down can be found."""
    for entry in _PROC.iterdir() if _has_proc() else ():
        fields = _stat(int(entry.name)) if entry.name.isdigit() else []
        if not fields or fields[_SESSION] != entry.name or not _carries(int(entry.name), marker):
            continue
        named = [one for one in _environ(int(entry.name)) if one.startswith(f"{variable}=".encode())]
        found = identify(int(entry.name))
        if named and found:
            yield named[0].partition(b"=")[2].decode("utf-8", "replace"), found


def find_marked(marker: str) -> Iterator[tuple[Identity, int]]:
    """Every process whose environment holds the marker, and the number of its session. None where there is no /proc."""
    for entry in _PROC.iterdir() if _has_proc() else ():
        fields = _stat(int(entry.name)) if entry.name.isdigit() and _carries(int(entry.name), marker) else []
        if fields and (found := identify(int(entry.name))):
            yield found, int(fields[_SESSION])


def is_stopped(pid: int) -> bool:
    """Stopped by a signal: it will answer nothing until another signal lets it go on."""
    fields = _stat(pid) if _has_proc() else []
    return bool(fields) and fields[_STATE] == "T"  # a debugger has its own letter


def end_processes(identities: Iterable[Identity], grace: float) -> None:
    """SIGTERM, SIGKILL after `grace` seconds; returns when none of them lives."""
    remaining = [one for one in identities if _signal(one, signal.SIGTERM)]
    deadline = time.monotonic() + grace
    while remaining and time.monotonic() < deadline:
        time.sleep(0.02)
        remaining = [one for one in remaining if is_alive(one)]
    for one in remaining:
        _signal(one, signal.SIGKILL)
    while any(is_alive(one) for one in remaining):
        time.sleep(0.01)


def _signal(identity: Identity, number: signal.Signals) -> bool:
    if not is_alive(identity):
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(identity.pid, number)
        return True
    return False


@cache
def _has_proc() -> bool:
    return sys.platform == "linux"


@cache
def _boot() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on, cut behind the program's name: that may hold anything."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return []
    return text[text.rindex(")") + 1 :].split()


def _start_by_proc(pid: int) -> str:
    fields = _stat(pid)
    return f"{fields[_START]}@{_boot()}" if fields and fields[_STATE] not in "ZX" else ""


def _start_by_ps(pid: int) -> str:
    argv = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    found = subprocess.run(argv, capture_output=True, text=True, check=False, env={"LC_ALL": "C", "PATH": os.defpath})
    state, _, start = found.stdout.strip().partition(" ")
    return start.strip() if state and not state.startswith("Z") else ""


def _carries(pid: int, marker: str) -> bool:
    return marker.encode() in _environ(pid)


def _environ(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []

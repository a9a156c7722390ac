"""Whose time it was: what a program computes and sleeps is its own, what it waits for the machine is not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from gym.sandbox.guest import supervise
from gym.sandbox.guest.supervise import LOOK, Supervisor, look_at

ASKED = {"cpu": 1.0, "wall": 8.0, "output": 1000}
Look = Callable[[int, float, float, dict[str, float]], tuple[float, list[float]]]


def judged(monkeypatch: pytest.MonkeyPatch, look: Look, *, late: float = LOOK) -> str:
    """The word on a program that looks so at every look."""
    now = [100.0]
    monkeypatch.setattr("gym.sandbox.guest.supervise.time.monotonic", lambda: now[0])
    monkeypatch.setattr(supervise, "look_at", look)
    one = Supervisor(1, ASKED, [0, 1, 2])
    while not one.why:
        now[0] += late
        one.look()
    return one.why


def test_a_program_that_is_kept_waiting_is_not_to_blame(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(monkeypatch, lambda pid, cpu, passed, delays: (cpu, [passed])) == "wall"
    assert judged(monkeypatch, lambda pid, cpu, passed, delays: (cpu, [passed]), late=3.0) == "wall"
    assert judged(monkeypatch, lambda pid, cpu, passed, delays: (cpu + 0.1 * passed, [0.85 * passed])) == "wall"


def test_a_program_that_sleeps_has_had_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(monkeypatch, lambda pid, cpu, passed, delays: (cpu, [0.0])) == "time"
    assert judged(monkeypatch, lambda pid, cpu, passed, delays: (cpu + 0.01 * passed, [0.01 * passed] * 5)) == "time"


def test_threads_that_wait_for_each_other_do_not_make_a_machine_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum of what a hundred threads wait is more than the time that passes; the longest of them waits little."""
    assert judged(monkeypatch, lambda pid, cpu, passed, delays: (cpu, [0.02 * passed] * 100)) == "time"


def watched(code: str, seconds: float) -> tuple[float, float]:
    """CPU and waiting of a real process, summed over looks."""
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            delays: dict[str, float] = {}
            cpu = waited = 0.0
            before = time.monotonic()
            while cpu + waited < seconds and process.poll() is None and time.monotonic() - before < 60:
                began = time.monotonic()
                time.sleep(LOOK)
                cpu, waits = look_at(process.pid, cpu, time.monotonic() - began, delays)
                waited += max(waits, default=0.0)
            return cpu, waited
        finally:
            process.kill()


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="this kernel does not tell")  # noqa: PTH110
def test_the_kernel_tells_what_a_process_computes_and_waits() -> None:
    cpu, waited = watched("while True: pass", 0.5)
    assert cpu + waited >= 0.5


def test_a_program_may_nest_its_last_words_deeper_than_anything_reads() -> None:
    one = Supervisor(1, ASKED, [0, 1, 2])
    one.received[one.say] += b"[" * 100_000 + b"]" * 100_000
    assert one.last_words(0) == {"end": "error", "error": "it left before its end", "traceback": ""}

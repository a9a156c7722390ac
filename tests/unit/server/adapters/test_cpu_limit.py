"""Tells code that works too long from code that waits, and from code for which the machine has no core free."""

from __future__ import annotations

import signal
import time

import pytest

from gym.server.adapters import cpu_limit
from gym.server.adapters.cpu_limit import CpuLimit, CpuLimitReached


def spin() -> None:
    while True:
        pass


def test_work_is_ended_by_its_cpu_time() -> None:
    with pytest.raises(CpuLimitReached) as ended, CpuLimit(0.05, wall=600):
        spin()
    assert not ended.value.waited
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_waiting_is_ended_by_the_time_that_went_by() -> None:
    with pytest.raises(CpuLimitReached) as ended, CpuLimit(600, wall=0.05):
        time.sleep(600)
    assert ended.value.waited


def test_time_that_others_had_the_core_is_not_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_limit, "_kept_from_cores", time.monotonic)  # all of it
    with pytest.raises(CpuLimitReached) as ended, CpuLimit(0.05, wall=0.3):
        spin()
    assert not ended.value.waited


def test_what_is_done_in_time_goes_on() -> None:
    with CpuLimit(600, wall=600):
        done = sum(range(10))
    assert done == 45

"""Figures of an audit: a leak is distinguished from noise and from warming up."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from gym.cli.audit.figures import is_leak, percentile, resident_bytes, slope


def test_percentiles_are_values_that_were_measured() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0] * 99 + [7.0], 0.99) == 7.0
    assert percentile([5.0], 0.99) == 5.0


def test_a_slope_is_that_of_the_straight_line() -> None:
    assert slope([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]) == 2.0
    assert slope([(1.0, 1.0)]) == 0.0


def test_memory_that_grows_with_every_verify_is_a_leak() -> None:
    assert is_leak([(float(n), 50e6 + 4096.0 * n) for n in range(0, 10_000, 333)])


def test_a_wobble_and_warming_up_are_not_a_leak() -> None:
    noise = random.Random(1)
    steady = [(float(n), 50e6 + noise.uniform(-1e6, 1e6)) for n in range(0, 10_000, 333)]
    warming = [(float(n), 50e6 + 8192.0 * min(n, 3000)) for n in range(0, 10_000, 333)]
    assert not is_leak(steady)
    assert not is_leak(warming)


def test_this_process_has_memory() -> None:
    assert resident_bytes() > 10 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_the_memory_of_a_child_counts_as_long_as_it_lives() -> None:
    code = "held = b'x' * (64 << 20); print(len(held), flush=True); input()"
    before = resident_bytes()
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        meanwhile = resident_bytes()
        child.communicate(b"\n")
    assert meanwhile - before > 64 << 20
    assert resident_bytes() < meanwhile

"""What every test stands on: a bound on its time, and property tests that do not depend on how fast the machine is."""

from __future__ import annotations

import faulthandler
import gc
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from tests.support.signals import let_children_be_interrupted

settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
let_children_be_interrupted()

TEST_SECONDS = 600.0  # far beyond the slowest: what hangs costs this much, and not the whole run
LONG_TIMES = 4  # for those that download
STACKS = {"integration", "e2e", "trainers"}
COUNTED = "COVERAGE_PROCESS_CONFIG"  # by it a process that a test starts counts its lines as well

collect_ignore = ["support/upstream_tree"]  # its tests run in the environment of the servers they belong to


def pytest_configure(config: pytest.Config) -> None:
    """Where stacks are noted down: no test finds those of the person who runs it, nor leaves a note among them."""
    folder = tempfile.mkdtemp(prefix="gym-test-state-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ["XDG_STATE_HOME"] = folder


def pytest_collection_finish() -> None:
    """9,000 tests and what they import live until the end: a collection that looks at them again takes a second."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """To begin to count its lines costs a process 0.25 s of CPU, and a stack is many. So what is counted is what unit
    tests reach, with all that they start, and what the other tests run in their own process."""
    counted = os.environ.pop(COUNTED, None) if STACKS & set(item.path.parts) else None
    try:
        return (yield)
    finally:
        if counted is not None:
            os.environ[COUNTED] = counted


@contextmanager
def bounded(item: pytest.Item) -> Generator[None, None, None]:
    """What takes longer fails, with the stacks of all threads, and the next test runs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    seconds = TEST_SECONDS * (LONG_TIMES if item.get_closest_marker("long") else 1)

    def give_up(_number: int, _frame: FrameType | None) -> None:
        faulthandler.dump_traceback(file=2, all_threads=True)
        pytest.fail(f"{item.nodeid} took longer than {seconds:g} s; the stacks of all threads are above")

    former = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with bounded(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with bounded(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    with bounded(item):
        return (yield)

"""A teardown is not cut short, and afterwards a process can be asked to end again."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from gym.runtime.signals import INTERRUPTS, ignore_interrupts


@pytest.mark.parametrize("number", INTERRUPTS)
def test_inside_nothing_ends_the_process_and_afterwards_handlers_are_as_they_were(number: signal.Signals) -> None:
    heard: list[int] = []
    former = signal.signal(number, lambda number, _: heard.append(number))
    try:
        with ignore_interrupts():
            os.kill(os.getpid(), number)
        assert heard == []
        os.kill(os.getpid(), number)
        assert heard == [number]
    finally:
        signal.signal(number, former)


def test_in_another_thread_it_changes_nothing() -> None:
    before = [signal.getsignal(number) for number in INTERRUPTS]
    seen: list[object] = []

    def work() -> None:
        with ignore_interrupts():
            seen.extend(signal.getsignal(number) for number in INTERRUPTS)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == before

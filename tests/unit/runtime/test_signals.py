"""A teardown is not cut short, and afterwards a process can be asked to end again."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from gym.runtime.signals import DEAF_TO, deaf


@pytest.mark.parametrize("number", DEAF_TO)
def test_inside_nothing_ends_the_process_and_afterwards_handlers_are_as_they_were(number: signal.Signals) -> None:
    heard: list[int] = []
    former = signal.signal(number, lambda number, _: heard.append(number))
    try:
        with deaf():
            os.kill(os.getpid(), number)
        assert heard == []
        os.kill(os.getpid(), number)
        assert heard == [number]
    finally:
        signal.signal(number, former)


def test_in_another_thread_it_changes_nothing() -> None:
    before = [signal.getsignal(number) for number in DEAF_TO]
    seen: list[object] = []

    def work() -> None:
        with deaf():
            seen.extend(signal.getsignal(number) for number in DEAF_TO)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == before

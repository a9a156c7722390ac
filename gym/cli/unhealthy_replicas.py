"""Adds to a pause the replicas that are not healthy, where the stack was started on this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gym.cli.stack_session import describe_unhealthy, find_session
from gym.collect import Event, Notice, OnEvent
from gym.errors import GymError


def report_unhealthy(report: OnEvent, look: Callable[[], list[str]]) -> OnEvent:
    """`look` runs in a thread of its own: a collection does not wait for it."""

    def look_and_report() -> None:
        for line in look():
            report(Notice(line))

    def on_event(event: Event) -> None:
        report(event)
        if isinstance(event, Notice) and event.paused:
            threading.Thread(target=look_and_report, name="unhealthy-replicas", daemon=True).start()

    return on_event


def no_replicas() -> list[str]:
    """For a stack that runs somewhere else."""
    return []


def unhealthy_replicas(stack: str) -> list[str]:
    """A line for each, of a stack that was started here; nothing where its runtime does not answer."""
    try:
        session = find_session(stack)
        status = session.runtime.status(session.home)
    except GymError:
        return []
    return describe_unhealthy(status) if status else ["nothing of the stack runs: gym up NAMES"]

"""A pause says which server fails; the runtime on this machine knows what ended, why, and what starts it again."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gym.cli.stack_session import find_session, unhealthy_replicas
from gym.collect import Event, Notice, OnEvent
from gym.errors import GymError
from gym.labels import stack_option


def with_unhealthy(report: OnEvent, look: Callable[[], list[str]]) -> OnEvent:
    """`look` may take its time: a collection does not wait for it."""

    def look_and_report() -> None:
        for line in look():
            report(Notice(line))

    def on_event(event: Event) -> None:
        report(event)
        if isinstance(event, Notice) and event.paused:
            threading.Thread(target=look_and_report, name="unhealthy", daemon=True).start()

    return on_event


def none_unhealthy() -> list[str]:
    """Of a stack somewhere else."""
    return []


def unhealthy_in(stack: str) -> list[str]:
    """Of the stack that was started here; nothing where it is another's, or its runtime does not answer."""
    try:
        session = find_session(stack)
        status = session.runtime.status(session.home)
    except GymError:
        return []
    return unhealthy_replicas(status) if status else ["nothing of the stack runs: gym up NAMES"]


def fate_of(stack: str) -> str:
    """What a collection that was stopped leaves behind, and the command for it."""
    option = stack_option(stack)
    try:
        session = find_session(stack)
        runs = session.runtime.status(session.home) is not None
    except GymError:
        return f"unknown whether it runs: gym ps{option}"
    return f"runs on; gym down{option} stops it" if runs else f"does not run; gym up NAMES{option} starts it"

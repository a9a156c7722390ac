"""The replicas of a stack while a command waits for them: a table that moves, or lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from gym.cli import console
from gym.cli.replica_table import ShowUrl, fit_table
from gym.cli.sign_of_life import LIFE
from gym.runtime.status import OnStatus, ReplicaStatus, StackStatus


@contextmanager
def live_status(what: str) -> Iterator[OnStatus]:
    """A table that follows the stack on a terminal; elsewhere a plain line whenever a replica's state changes, and when
    none has for ten seconds."""
    terminal = console.err()
    if not terminal.is_terminal:
        lines = _LineReporter(what)
        with console.busy(lines.summary):
            yield lines.report
        return
    view = _LiveView(what)
    # Transient: the table of a stack that is up is replaced by the command's own summary.
    with LIFE.hidden(), Live(get_renderable=view.render, console=terminal, refresh_per_second=12, transient=True):
        yield view.report


class _LiveView:
    def __init__(self, what: str) -> None:
        self.began = time.monotonic()
        self.spinner = Spinner("dots", text=what)
        self.status: StackStatus | None = None
        self.healthy_at: dict[str, float] = {}

    def report(self, status: StackStatus) -> None:
        self.status = status
        for one in status.replicas:
            if one.state == "healthy":
                self.healthy_at.setdefault(one.replica, time.monotonic() - self.began)

    def render(self) -> RenderableType:
        if self.status is None:
            return self.spinner
        status = self.status

        def make(show_url: ShowUrl) -> Table:
            rows = [self._row(one, show_url(one, status)) for one in status.replicas]
            return console.make_table(("", "", "", " "), rows, right=(" ",))

        return Group(self.spinner, fit_table(make, console.err()))

    def _row(self, one: ReplicaStatus, url: str) -> tuple[str | Text, ...]:
        shown = url if one.state == "healthy" else one.detail
        seconds = self.healthy_at.get(one.replica, time.monotonic() - self.began)
        return f"  {one.replica}", console.state_text(one.state), shown, f"{seconds:.1f}s"


class _LineReporter:
    def __init__(self, what: str) -> None:
        self.what = what
        self.last: dict[str, ReplicaStatus] = {}

    def summary(self) -> str:
        """`starting stack 'gym': 3 of 5 healthy, not yet mcqa-1 (building its image), router (starting)`."""
        others = [f"{name} ({_word(one)})" for name, one in self.last.items() if one.state != "healthy"]
        counted = f": {len(self.last) - len(others)} of {len(self.last)} healthy" if self.last else ""
        waiting = f", not yet {', '.join(others)}" if others else ""
        return f"{self.what}{counted}{waiting}"

    def report(self, status: StackStatus) -> None:
        for one in status.replicas:
            last = self.last.get(one.replica)
            before, self.last[one.replica] = last.state if last else "healthy", one
            if before != one.state:  # what is well from the beginning is not worth a line
                console.note(f"{one.replica}: {one.state}" + (f" ({one.detail})" if one.detail else ""), style="")


def _word(one: ReplicaStatus) -> str:
    """A start that is slow says what it does; why a replica is unhealthy has had a line of its own."""
    return one.detail if one.state == "starting" and one.detail else one.state

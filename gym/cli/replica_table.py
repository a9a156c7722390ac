"""The replicas of a stack as a table: live while a command waits, and as `gym ps` prints it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from gym.cli import console
from gym.labels import SERVER_PREFIX
from gym.runtime.status import OnStatus, ReplicaStatus, StackStatus
from gym.wire.server_types import KINDS
from gym.wire.stack_names import SANDBOX, SERVICE

ShowUrl = Callable[[ReplicaStatus, StackStatus], str]


def replica_table(status: StackStatus) -> Table:
    """What `gym ps` prints."""
    names = ("REPLICA", "TYPE", "STATE", "URL", "UP", "RESTARTS", "")

    def make(show_url: ShowUrl) -> Table:
        rows = [
            (
                one.replica,
                KINDS.get(one.type, one.type),
                console.state_text(one.state),
                show_url(one, status),
                console.format_duration(one.uptime_seconds) if one.uptime_seconds else "",
                str(one.restarts) if one.restarts else "",
                one.detail,
            )
            for one in status.replicas
        ]
        return console.make_table(names, rows, right=("UP", "RESTARTS"))

    return _fit(make, console.out())


def _fit(make: Callable[[ShowUrl], Table], terminal: Console) -> Table:
    """Addresses give way where lines would be folded: first what stands before the path, then all of them."""
    unbounded = terminal.options.update_width(console.PIPE_WIDTH)
    for show_url in (_url, _path):
        table = make(show_url)
        if terminal.measure(table, options=unbounded).maximum <= terminal.width:
            return table
    return make(_no_url)


def _url(one: ReplicaStatus, status: StackStatus) -> str:
    """Where it answers a caller on this machine: a container's own name means nothing outside its network."""
    if status.runtime == "local":
        return one.url.removeprefix("http://") if one.type == SERVICE else one.url
    if one.type in (SANDBOX, SERVICE):
        return ""  # it cannot be reached from outside of its network
    if one.type not in KINDS:
        return status.router
    return f"{status.router}{SERVER_PREFIX}{one.instance}" if status.router else ""


def _path(one: ReplicaStatus, status: StackStatus) -> str:
    """Below the router's address, which every command tells beside the table."""
    url = _url(one, status)
    return url if status.runtime == "local" or not url else url.removeprefix(status.router) or "/"


def _no_url(one: ReplicaStatus, status: StackStatus) -> str:
    return ""


@contextmanager
def live_status(what: str) -> Iterator[OnStatus]:
    """A table that follows the stack on a terminal; elsewhere a plain line whenever a replica's state changes."""
    terminal = console.err()
    if not terminal.is_terminal:
        yield _LineReporter().report
        return
    view = _LiveView(what)
    # Transient: the table of a stack that is up is replaced by the command's own summary.
    with Live(get_renderable=view.render, console=terminal, refresh_per_second=12, transient=True):
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

        return Group(self.spinner, _fit(make, console.err()))

    def _row(self, one: ReplicaStatus, url: str) -> tuple[str | Text, ...]:
        shown = url if one.state == "healthy" else one.detail
        seconds = self.healthy_at.get(one.replica, time.monotonic() - self.began)
        return f"  {one.replica}", console.state_text(one.state), shown, f"{seconds:.1f}s"


class _LineReporter:
    def __init__(self) -> None:
        self.last: dict[str, str] = {}

    def report(self, status: StackStatus) -> None:
        for one in status.replicas:
            before, self.last[one.replica] = self.last.get(one.replica, "healthy"), one.state
            if before != one.state:  # what is well from the beginning is not worth a line
                console.note(f"{one.replica}: {one.state}" + (f" ({one.detail})" if one.detail else ""), style="")

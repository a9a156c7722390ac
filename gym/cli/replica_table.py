"""The replicas of a stack as a table, as `gym ps` prints it."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from gym.cli import console
from gym.labels import SERVER_PREFIX
from gym.runtime.status import ReplicaStatus, StackStatus
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

    return fit_table(make, console.out())


def fit_table(make: Callable[[ShowUrl], Table], terminal: Console) -> Table:
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

"""`gym restart`: replace the processes or containers of servers; requests in flight are finished first."""

from __future__ import annotations

from gym.cli import console
from gym.cli.live_status import live_status
from gym.cli.options import DEFAULT_STACK, Servers, StackName, StartTimeout
from gym.cli.replica_table import replica_table
from gym.cli.stack_session import find_session, running


def command(names: Servers = None, timeout: StartTimeout = None, stack: StackName = DEFAULT_STACK) -> int:
    """Restart instances, all of them when none is named, and wait until they are healthy."""
    session = find_session(stack)
    running(session.home, session.runtime.name)
    with live_status("restarting") as on_status:
        status = session.runtime.restart(session.home, tuple(names or ()), on_status, timeout=timeout)
    console.show(replica_table(status))
    return 0

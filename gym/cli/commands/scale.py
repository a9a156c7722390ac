"""`gym scale mcqa=4`: more or fewer replicas while the stack runs; nothing else restarts."""

from __future__ import annotations

from typing import Annotated

import typer

from gym.cli import console
from gym.cli.live_status import live_status
from gym.cli.options import DEFAULT_STACK, StackName, StartTimeout, parse_counts
from gym.cli.replica_table import replica_table
from gym.cli.stack_session import find_session, running


def command(
    counts: Annotated[list[str], typer.Argument(metavar="NAME=N", help="Instances and how many replicas each.")],
    timeout: StartTimeout = None,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Change how many replicas instances have: gym scale mcqa=4."""
    session = find_session(stack)
    running(session.home, session.runtime.name)
    with live_status("scaling") as on_status:
        status = session.runtime.scale(session.home, parse_counts(counts, "scale"), on_status, timeout=timeout)
    console.show(replica_table(status))
    return 0

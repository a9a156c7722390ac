"""`gym logs`: what the servers wrote, merged, followed until Ctrl-C with -f."""

from __future__ import annotations

from typing import Annotated

import typer

from gym.cli import console
from gym.cli.options import DEFAULT_STACK, Servers, StackName
from gym.cli.sign_of_life import LIFE
from gym.cli.stack_session import find_session


def command(
    names: Servers = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until Ctrl-C.")] = False,
    tail: Annotated[int, typer.Option("--tail", metavar="N", min=0, help="Last lines of each replica.")] = 200,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Print the logs of instances or single replicas: gym logs mcqa, gym logs mcqa-2 -f."""
    session = find_session(stack)
    silent = True
    with LIFE.hidden():
        for line in session.runtime.logs(session.home, tuple(names or ()), follow=follow, tail=tail):
            silent = False
            console.show_line(line.rstrip("\n"))
    if silent and tail:
        console.note("Nothing was logged yet; -f waits for more.")
    return 0

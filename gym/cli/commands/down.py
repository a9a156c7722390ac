"""`gym down`: stop everything a stack ever started, also what a killed command left behind."""

from __future__ import annotations

from typing import Annotated

import typer

from gym.cli import console
from gym.cli.options import DEFAULT_STACK, StackName
from gym.cli.stack_session import find_session, sweep_leftovers


def command(
    sweep: Annotated[bool, typer.Option("--sweep", help="All containers of all stacks of yours, wherever.")] = False,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Stop everything a stack started."""
    if sweep:
        homes = sweep_leftovers()
        console.note("\n".join(f"Removed what was left of {home}." for home in homes) or "Nothing was left.")
        return 0
    session = find_session(stack)
    stopped = session.runtime.down(session.home)
    console.note(f"Stopped stack '{stack}'." if stopped else f"Nothing of stack '{stack}' was running.")
    return 0

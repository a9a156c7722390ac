"""`gym ps`: the replicas of a stack; exit code 1 when nothing runs."""

from __future__ import annotations

from gym.cli.options import DEFAULT_STACK, AsJson, StackName
from gym.cli.pages import ps_page


def command(as_json: AsJson = False, stack: StackName = DEFAULT_STACK) -> int:
    """Show the replicas of a stack: state, address, restarts."""
    return ps_page.show(stack, as_json=as_json)

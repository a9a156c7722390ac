"""`gym ps`: the replicas of a stack; exit code 1 when nothing runs."""

from __future__ import annotations

from gym.cli import console
from gym.cli.live import replica_table
from gym.cli.options import DEFAULT_STACK, AsJson, StackName
from gym.cli.session import find_session, running


def command(as_json: AsJson = False, stack: StackName = DEFAULT_STACK) -> int:
    """Show the replicas of a stack: state, address, restarts."""
    status = running(find_session(stack))
    if as_json:
        console.show_json(status.model_dump(mode="json") | {"healthy": status.healthy})
        return 0
    console.show(replica_table(status))
    console.note(f"\nstack {status.stack} on the {status.runtime} runtime, router {status.router}")
    return 0

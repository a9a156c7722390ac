"""`gym ps`: the replicas of a stack; exit code 1 when nothing runs."""

from __future__ import annotations

from gym.cli import console
from gym.cli.options import DEFAULT_STACK, AsJson, StackName
from gym.cli.replica_table import replica_table
from gym.cli.stack_session import find_session, running, strict_verifiers


def command(as_json: AsJson = False, stack: StackName = DEFAULT_STACK) -> int:
    """Show the replicas of a stack: state, address, restarts."""
    session = find_session(stack)
    status = running(session)
    if as_json:
        strict = strict_verifiers(session.home)
        console.show_json(status.model_dump(mode="json") | {"healthy": status.healthy, "strict": strict})
        return 0
    console.show(replica_table(status))
    console.note(f"\nstack {status.stack} on the {status.runtime} runtime, router {status.router}")
    if strict := strict_verifiers(session.home):
        console.note(f"strict: {', '.join(strict)}")
    return 0

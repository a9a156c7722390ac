"""What `gym ps` prints; no parser is loaded for it."""

from __future__ import annotations

from gym.cli import console
from gym.cli.replica_table import replica_table
from gym.cli.stack_session import find_session, running, strict_verifiers
from gym.labels import DEFAULT_STACK


def show(stack: str = DEFAULT_STACK, *, as_json: bool = False) -> int:
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

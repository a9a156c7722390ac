"""What `gym ps` prints; no parser is loaded for it."""

from __future__ import annotations

from dataclasses import asdict

from gym.cli import console
from gym.cli.replica_table import replica_table
from gym.cli.stack_session import find_home, running, sandboxes_of, strict_verifiers
from gym.labels import DEFAULT_STACK


def show(stack: str = DEFAULT_STACK, *, as_json: bool = False) -> int:
    home, runtime = find_home(stack)
    status = running(home, runtime)
    if as_json:
        more = {"healthy": status.healthy, "strict": strict_verifiers(home)}
        if sandboxes := sandboxes_of(home):
            more["sandboxes"] = sandboxes.model_dump(mode="json")
        console.show_json(asdict(status) | more)
        return 0
    console.show(replica_table(status))
    console.note(f"\nstack {status.stack} on the {status.runtime} runtime, router {status.router}")
    if sandboxes := sandboxes_of(home):
        console.note(f"sandboxes: {sandboxes.alive}, waiting: {sandboxes.waiting}, warm: {sandboxes.warm}")
    if strict := strict_verifiers(home):
        console.note(f"strict: {', '.join(strict)}")
    return 0

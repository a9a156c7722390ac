"""`gym ls`: every stack of this user, wherever it was started; what `gym down --all` would stop."""

from __future__ import annotations

import time

from gym.cli import console
from gym.cli.options import AsJson
from gym.runtime.stack_list import FoundStack, list_stacks


def command(as_json: AsJson = False) -> int:
    """Show all your stacks on this machine and its container engine."""
    found = list_stacks()
    if as_json:
        console.show_json([one.model_dump(mode="json") | {"folder": str(one.folder)} for one in found.stacks])
        return 0
    if found.stacks:
        columns = ("STACK", "RUNTIME", "PORT", "AGE", "STATE", "FOLDER")
        console.show(console.make_table(columns, map(_row, found.stacks), right=("PORT", "AGE")))
    else:
        console.note("No stack of yours runs. Start one: gym up simple_weather --model scripted")
    if any(one.lost for one in found.stacks):
        console.note("\nA stack whose folder is gone is stopped as any other: gym down --stack NAME", style="cyan")
    if found.no_engine:
        console.note(f"Stacks of containers are not listed: {found.no_engine}")
    return 0


def _row(one: FoundStack) -> tuple[str, ...]:
    age = console.format_duration(max(0.0, time.time() - one.since)) if one.since else ""
    return one.stack, one.runtime, str(one.port or ""), age, one.state, str(one.folder)

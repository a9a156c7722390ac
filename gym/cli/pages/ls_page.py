"""What `gym ls` prints; no parser is loaded for it."""

from __future__ import annotations

import time
from dataclasses import asdict

from gym.cli import console
from gym.runtime.stack_list import FoundStack, list_stacks


def show(*, as_json: bool = False) -> int:
    found = list_stacks()
    if as_json:
        console.show_json([asdict(one) | {"folder": str(one.folder)} for one in found.stacks])
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

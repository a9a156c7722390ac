"""`gym test --sandbox PROVIDER`: every behaviour that a provider must show, tried on this machine, a line each."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from pathlib import Path
from typing import Final

from rich.text import Text

from gym.broker.conformance import BEHAVIOURS, BehaviourResult, make_factory, run_suite
from gym.broker.providers.factory import make_provider
from gym.cli import console
from gym.wire.sandbox import ProviderName

IMAGES: Final[dict[str, str]] = {"docker": "python:3.13-slim"}  # elsewhere: this machine's own files
HOST: Final = "host"
MARKS: Final = {"passed": ("ok  ", "green"), "skipped": ("skip", "yellow"), "failed": ("fail", "bold red")}


def try_provider(name: ProviderName) -> int:
    """1 when a behaviour fails."""
    with tempfile.TemporaryDirectory(prefix="gym-conformance-") as folder:
        outcomes = asyncio.run(_run(name, Path(folder)))
    counts = {state: sum(one.state == state for one in outcomes) for state in MARKS}
    console.show()
    console.show(f"{name}: {counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return int(counts["failed"] > 0 or counts["passed"] == 0)


async def _run(name: ProviderName, folder: Path) -> tuple[BehaviourResult, ...]:
    """On a stack of its own; what a behaviour left there is removed."""
    stack = f"conformance-{secrets.token_hex(4)}"
    provider = make_provider(name, folder, {})
    await provider.open()
    try:
        console.note(f"{len(BEHAVIOURS)} behaviours on {provider.name}")
        image = IMAGES.get(provider.name, HOST)
        return await run_suite(make_factory(provider, stack), provider.abilities, _show, image=image)
    finally:
        await provider.sweep(stack, frozenset())
        await provider.close()


def _show(outcome: BehaviourResult) -> None:
    line = Text.assemble(MARKS[outcome.state], f" {outcome.seconds:6.2f}s  {outcome.name}")
    console.show(line)
    if outcome.why:
        console.show(Text(f"              {outcome.why}", style="dim" if outcome.state == "skipped" else ""))

"""`gym lock`: write down the images, installed versions and data sets of a stack; `gym up --locked` insists on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.options import DEFAULT_STACK, StackName
from gym.cli.stack_session import find_session
from gym.runtime.compose import ComposeRuntime
from gym.runtime.compose.stack_bill import write_bill

Bill = Annotated[
    Path | None,
    typer.Option("--sbom", metavar="FILE", help="Write what every image holds, too: CycloneDX 1.6, as JSON."),
]
Target = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write it.")]


def command(output: Target = Path("gym.lock"), sbom: Bill = None, stack: StackName = DEFAULT_STACK) -> int:
    """Lock the stack that was started here last.

    Example: gym up mcqa && gym lock && git add gym.lock
    """
    home, runtime = find_session(stack).home, ComposeRuntime()
    lock = runtime.lock(home, output, _show_unhashed)
    hashed = sum(bool(one.hashed) for one in lock.instances.values())
    images = len(lock.instances) + len(lock.services)
    counted = f"{images} images, requirements of {hashed} with hashes, {len(lock.datasets)} data sets"
    console.note(f"{output}: {counted}")
    if sbom:
        components = write_bill(home, sbom, lock, runtime.cache)
        console.note(f"{sbom}: {components} components, images and what is installed in them")
    return 0


def _show_unhashed(instance: str, why: str) -> None:
    """Its image and its versions are locked all the same."""
    console.note(f"{instance}: its requirements are locked without hashes, uv could not find them: {why}", "yellow")

"""`gym lock`: write down the images, installed versions and data sets of a stack; `gym up --locked` insists on them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.options import DEFAULT_STACK, StackName
from gym.cli.session import find_session
from gym.runtime.compose import ComposeRuntime

Target = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write it.")]


def command(output: Target = Path("gym.lock"), stack: StackName = DEFAULT_STACK) -> int:
    """Lock the stack that was started here last.

    Example: gym up mcqa && gym lock && git add gym.lock
    """
    lock = ComposeRuntime().lock(find_session(stack).home, output)
    console.note(f"{output}: {len(lock.instances)} images, {len(lock.datasets)} data sets")
    return 0

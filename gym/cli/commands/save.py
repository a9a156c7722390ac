"""`gym save`: a built stack as one file, for a machine with no network. Values of secrets stay behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.options import DEFAULT_STACK, StackName
from gym.cli.stack_session import find_session
from gym.runtime.compose.archive import save_stack

Target = Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write it.")]


def command(output: Target = Path("stack.tar"), stack: StackName = DEFAULT_STACK) -> int:
    """Write the images and the plan of the stack that was started here last.

    Example: gym up mcqa && gym save -o mcqa.tar
    """
    home = find_session(stack).home
    with console.busy(f"writing {output}"):
        manifest = save_stack(home, output)
    megabytes = output.stat().st_size / 2**20
    console.note(f"{output}: {len(manifest.images)} servers, {megabytes:.0f} MB. There: gym load {output.name}")
    if manifest.secrets:
        console.note(f"It asks for secrets, one file each: {', '.join(manifest.secrets)} (gym load --secrets DIR)")
    return 0

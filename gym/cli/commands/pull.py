"""`gym pull`: a packed environment comes from its registry, and what its configuration asks for is shown."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.named_images import list_findings, open_named_image, trust_image

Image = Annotated[str, typer.Argument(metavar="IMAGE", help="An image that `gym push` pushed.")]
Trust = Annotated[bool, typer.Option("--trust", help="Let it read what it asks for of this machine, until it changes.")]


def command(image: Image, trust: Trust = False) -> int:
    """Pull a packed environment, also over an older one of that name; with --trust, trust the one that is here.

    Example: gym pull registry.example.org/team/mcqa:1.2
    """
    with console.busy(f"pulling {image}"):
        opened = open_named_image(image, fetch=not trust)
    for one in list_findings(opened, os.environ):
        console.note(f"{'trusted' if trust else 'asks for'}: {one}", style="yellow")
    if trust:
        trust_image(opened)
    console.note(f"{image} is {opened.packed.digest}")
    console.note(f"read it: gym info {image} · start it: gym up {image}")
    return 0

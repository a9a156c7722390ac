"""`gym push`: a packed environment goes to the registry that its name says."""

from __future__ import annotations

from typing import Annotated

import typer

from gym.cli import console
from gym.engine import engine_host
from gym.runtime.compose.packed_images import read_pack
from gym.runtime.compose.server_builds import push_image

Image = Annotated[str, typer.Argument(metavar="IMAGE", help="What `gym pack` made.")]


def command(image: Image) -> int:
    """Push a packed environment.

    Example: gym push registry.example.org/team/mcqa:1.2
    """
    read_pack(image)
    with console.busy(f"pushing {image}"):
        push_image(image, engine_host())
    console.note(f"pushed {image} ({read_pack(image)[1]})")
    return 0

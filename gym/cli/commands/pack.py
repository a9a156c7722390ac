"""`gym pack`: an environment as one image: code, requirements, configuration, rows, verifier cases, README, licence."""

from __future__ import annotations

from typing import Annotated

import typer

from gym.cli.pack_request import pack_named, show_packing

Name = Annotated[str, typer.Argument(metavar="NAME", help="A server, as `gym list` shows it.")]
Tag = Annotated[str, typer.Option("-t", "--tag", metavar="IMAGE", help="What the image is called, with its tag.")]


def command(name: Name, tag: Tag) -> int:
    """Pack an environment, with the agent it names, into one image that runs where no checkout is.

    Example: gym pack mcqa -t registry.example.org/team/mcqa:1.2
    """
    show_packing(tag, pack_named(name, tag))
    return 0

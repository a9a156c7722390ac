"""`gym data upload FILE ADDRESS`: every line is checked first, and what the file replaces is named."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.data.registry_words import Settings, read_registry_access, size_text
from gym.cli.data.upload_target import find_target
from gym.cli.options import AsJson
from gym.data.registries import Stored, UploadOptions, open_registry, parse_address
from gym.data.registries.upload_check import name_of_split
from gym.errors import UserError

File = Annotated[Path, typer.Argument(metavar="FILE", help="What to upload.")]
Target = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="hf:ORG/NAME, hf:ORG/NAME@BRANCH or gitlab:NAME:VERSION; or --for.")
]
Server = Annotated[
    str, typer.Option("--for", metavar="SERVER", help="Name it after a server: ORG/PREFIX-DOMAIN-SERVER.")
]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="With --for: instead of the server's name.")]
Revision = Annotated[str, typer.Option("--revision", metavar="BRANCH", help="With --for: another branch than main.")]
AsFile = Annotated[str, typer.Option("--as", metavar="FILE", help="Its name there; default: its own.")]
Split = Annotated[str, typer.Option("--split", metavar="SPLIT", help="Its name there: SPLIT.jsonl, packed as it is.")]
Request = Annotated[bool, typer.Option("--pr", help="As a pull request.")]
Public = Annotated[bool, typer.Option("--public", help="A data set that is made is public; else private.")]
Message = Annotated[str, typer.Option("-m", "--message", metavar="TEXT", help="The commit's first line.")]
Description = Annotated[str, typer.Option("--description", metavar="TEXT", help="The rest of the commit's message.")]
Delete = Annotated[str, typer.Option("--then-remove", metavar="gitlab:NAME", help="Afterwards remove it from there.")]


def command(
    file: File,
    address: Target = "",
    server: Server = "",
    name: Name = "",
    revision: Revision = "",
    as_file: AsFile = "",
    split: Split = "",
    pull_request: Request = False,
    public: Public = False,
    message: Message = "",
    description: Description = "",
    then_remove: Delete = "",
    settings: Settings = None,
    as_json: AsJson = False,
) -> int:
    """Upload a file of rows: gym data upload train.jsonl hf:ORG/NAME."""
    access = read_registry_access(settings)
    target = find_target(address, server, name, revision, access)
    old = parse_address(then_remove) if then_remove else None
    change = UploadOptions(
        as_file or (name_of_split(split, file) if split else ""), message, description, pull_request, public
    )
    if old and pull_request:
        raise UserError(
            "--then-remove would be too early: a pull request may be refused", "Merge it, then gym data rm."
        )
    if target.registry == "huggingface":
        change = replace(change, collection=access.collection)
    # Before anything is done, so that a missing setting is an error now.
    gone = open_registry(old.registry, access) if old else None
    with console.busy(f"Uploading {file}"):
        stored = open_registry(target.registry, access).upload(target, file, change)
    removed = gone.remove(old) if gone and old else ""
    if as_json:
        console.show_json({**asdict(stored), "removed": removed})
        return 0
    console.show("\n".join([*_describe(stored, pull_request), *([f"removed {removed}"] if removed else [])]))
    return 0


def _describe(stored: Stored, pull_request: bool) -> list[str]:
    lines = [f"{stored.file} is in {stored.address}: {size_text(stored.size)}, sha256 {stored.sha256[:12]}"]
    if stored.replaced:
        lines.append(f"{'when merged, it replaces' if pull_request else 'it replaced'} {stored.replaced}")
    return [*lines, *stored.notes, *([stored.url] if stored.url else [])]

"""`gym data download ADDRESS`: one file of a registry, or the rows of a split, checked and whole."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.data.registry_words import AddressText, Settings, place_of, read_registry_access, size_text
from gym.cli.options import AsJson
from gym.data.file_kinds import check_kept_name
from gym.data.registries import Received, open_registry, parse_address
from gym.data.whole_files import refuse_other_form
from gym.errors import UserError

File = Annotated[str, typer.Argument(metavar="FILE", help="A file in it; or give --split.")]
Split = Annotated[str, typer.Option("--split", metavar="SPLIT", help="The rows of a split, as JSONL: train, ...")]
Config = Annotated[str, typer.Option("--config", metavar="NAME", help="Of several configurations on a hub: this one.")]
Output = Annotated[str, typer.Option("-o", "--output", metavar="FILE|DIR/", help="Default: its name, here.")]
CHECKS = {"sha256": "sha256 checked", "git": "git checksum checked", "size": "size checked", "": "not checked"}


def command(
    address: AddressText,
    file: File = "",
    split: Split = "",
    config: Config = "",
    output: Output = "",
    settings: Settings = None,
    as_json: AsJson = False,
) -> int:
    """Download a file or a split; resumes after an interruption: gym data download hf:ORG/NAME --split train."""
    parsed = parse_address(address)
    if bool(file) == bool(split) and parsed.registry == "huggingface":
        raise UserError("Which rows? Give a file or --split, not both", f"Look: gym data ls {parsed}")
    if config and not split:
        raise UserError("--config chooses among the rows of a split", "Add --split, or leave --config out.")
    registry = open_registry(parsed.registry, read_registry_access(settings))
    place = place_of(output, file, split, parsed)
    if file:
        check_kept_name(file, place.name)
    else:
        refuse_other_form(place)
    with console.busy(f"Fetching {parsed}"):
        got = registry.download(parsed, place, file=file, split=split, config=config)
    if as_json:
        console.show_json(asdict(got))
        return 0
    note_rows(got)
    console.show(describe_received(got))
    return 0


def note_rows(got: Received) -> None:
    """What is to be known of the rows that came."""
    for note in got.notes:
        console.note(f"{got.path}: {note}", style="yellow")


def describe_received(got: Received) -> str:
    replaced = "; it replaced an earlier file" if got.replaced else ""
    return f"{got.path}: {size_text(got.size)} from {got.source} ({CHECKS[got.verified]}{replaced})"

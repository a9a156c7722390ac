"""What the registry commands share: the settings they read, and how sizes are shown."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from gym.cli.stack_request import load_request
from gym.config import load_stack
from gym.data.registries import Access, RegistryAddress, read_access
from gym.errors import UserError

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting over env.yaml's, e.g. hf_organization=us; repeatable."),
]
AddressText = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="hf:ORG/NAME, hf:ORG/NAME@REVISION or gitlab:NAME:VERSION.")
]


def read_settings(given: list[str] | None) -> dict[str, Any]:
    """env.yaml of the working directory, and what was typed."""
    for one in given or ():
        if "=" not in one:
            raise UserError(f"--set {one}: expected KEY=VALUE")
    return load_stack(load_request([f"++{one.lstrip('+')}" for one in given or ()])).settings


def read_registry_access(given: list[str] | None) -> Access:
    return read_access(read_settings(given), os.environ)


def place_of(output: str, file: str, split: str, address: RegistryAddress) -> Path:
    """A folder takes the file's own name; without any output it goes to the working directory."""
    name = Path(file).name or f"{split or address.name.rpartition('/')[2]}.jsonl"
    return Path(output, name) if output.endswith("/") or Path(output).is_dir() else Path(output)


def size_text(size: int | None) -> str:
    if size is None:
        return ""
    amount, units = float(size), ("B", "KB", "MB", "GB", "TB")
    for unit in units:
        if amount < 1000 or unit == units[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("the last unit takes every size")

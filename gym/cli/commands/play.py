"""`gym play`: be the policy. A person sees the prompt, calls tools, answers, and gets the verifier's word."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.caller_token import read_token
from gym.cli.commands.ask import read_row
from gym.cli.named_images import find_entry
from gym.cli.options import DEFAULT_STACK, StackName, TokenFile, Url
from gym.cli.play.played_row import PlayedRow
from gym.cli.play.typed_turn import Left
from gym.cli.stack_session import router_of
from gym.client import Stack
from gym.config.example_rows import example_of
from gym.errors import UserError

Server = Annotated[str, typer.Argument(metavar="NAME", help="A resources server of the stack that runs.")]
RowAt = Annotated[
    str, typer.Option("--row", metavar="N|FILE:LINE", help="Its example row N, from 0, or a line of a JSONL file.")
]


def command(
    name: Server, row: RowAt = "0", url: Url = "", token_file: TokenFile = None, stack: StackName = DEFAULT_STACK
) -> int:
    """Be the policy of one row: gym play simple_weather."""
    if row.startswith("-"):
        raise UserError(f"There is no example row {row}.", "They count from 0.")
    asked = read_row(f"{example_of(find_entry(name).directory)}:{int(row) + 1}" if row.isdecimal() else row)
    with Stack.connect(url or router_of(stack), token=read_token(token_file, os.environ)) as found:
        if name not in (there := found.environments()):
            raise UserError(f"The stack has no resources server {name!r}.", f"It has {', '.join(there) or 'none'}.")
        verdict = PlayedRow(found, name, asked, console.show_line, _read_line).play()
    if verdict is None:
        console.note("left before the verdict; the session is closed")
        return 0
    reason = f"  ({verdict['reason']})" if verdict.get("reason") else ""
    console.show_line(f"reward {verdict['reward']:g}{reason}")
    return 0


def _read_line() -> str:
    if sys.stdin.isatty():
        console.prompt("> ")
    line = sys.stdin.readline()
    if not line:
        raise Left
    return line.rstrip("\n")

"""`gym exec NAME`: a command, or a shell, where a server runs: in its container, or with its environment here."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.options import DEFAULT_STACK, StackName
from gym.cli.sign_of_life import LIFE
from gym.cli.stack_session import find_session
from gym.programs import become_program

Server = Annotated[str, typer.Argument(metavar="NAME", help="An instance, or one replica of it.")]
Words = Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND...", help="Default: a shell.")]


def command(name: Server, words: Words = None, stack: StackName = DEFAULT_STACK) -> int:
    """Run a command where a server runs, with its files, packages and variables; its exit code is ours.

    Example: gym exec mcqa -- python -c 'import gym; print(gym.__version__)'
    """
    session = find_session(stack)
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    found = session.runtime.exec_command(session.home, name, tuple(words or ()), terminal=terminal)
    if terminal and not words:
        console.note(f"a shell beside {found.replica}{f' in {found.cwd}' if found.cwd else ''}; `exit` leaves it")
    with LIFE.hidden():
        become_program(found.argv, cwd=found.cwd, env=found.env)

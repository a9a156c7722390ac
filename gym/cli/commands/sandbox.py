"""List, enter and remove the sandboxes of a stack that runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from gym.cli import console
from gym.cli.options import DEFAULT_STACK, AsJson, StackName
from gym.cli.sandbox.broker_calls import (
    find_sandbox,
    list_sandboxes,
    remove_sandbox,
    stream_exec,
)
from gym.cli.sandbox.broker_channel import find_broker
from gym.cli.sandbox.leftovers import find_leftovers
from gym.cli.sandbox.show import exit_code, sandbox_table, show_output
from gym.cli.sandbox.terminal import attach_terminal
from gym.cli.sign_of_life import LIFE
from gym.cli.stack_session import find_session
from gym.errors import UserError

MAX_OUTPUT: Final = 16 << 20  # of each stream: its head as it comes, its tail at the end

Sandbox = Annotated[str, typer.Argument(metavar="ID", help="A sandbox, or the beginning of its id.")]
Words = Annotated[list[str], typer.Argument(metavar="COMMAND...", help="What to run, word by word.")]
User = Annotated[str | None, typer.Option("--user", metavar="NAME", help="As whom; default: the sandbox's own user.")]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="Then it is killed.")]
Stdin = Annotated[bool, typer.Option("-i", "--stdin", help="Give it our standard input, to its end.")]
Folder = Annotated[str | None, typer.Option("--cwd", metavar="PATH", help="Where, inside.")]


def ls(as_json: AsJson = False, stack: StackName = DEFAULT_STACK) -> int:
    """Show the sandboxes of a stack; when none runs, those that an earlier one left on this machine."""
    found, whose = find_leftovers(stack)
    if as_json:
        console.show_json([one.model_dump(mode="json") for one in found])
        return 0
    if found:
        console.show(sandbox_table(found))
    console.note(f"{len(found)} sandboxes {whose}" if len(found) != 1 else f"1 sandbox {whose}")
    return 0


def exec_(
    sandbox: Sandbox,
    words: Words,
    timeout: Timeout = 3600.0,
    user: User = None,
    cwd: Folder = None,
    stdin: Stdin = False,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Run a command in a sandbox, with its output and exit code: gym sandbox exec ID -- ls -l /"""
    broker = find_broker(find_session(stack))
    request: dict[str, Any] = {"argv": words, "timeout": timeout, "user": user, "cwd": cwd, "max_output": MAX_OUTPUT}
    lines = stream_exec(broker, find_sandbox(broker, sandbox), request, sys.stdin.buffer.read() if stdin else b"")
    with LIFE.hidden():
        return exit_code(show_output(lines), timeout)


def attach(
    sandbox: Sandbox,
    words: Annotated[list[str] | None, typer.Argument(metavar="COMMAND...", help="Default: a shell.")] = None,
    user: User = None,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Open a terminal in a sandbox; it ends with its shell."""
    broker = find_broker(find_session(stack))
    with LIFE.hidden():
        return attach_terminal(broker, find_sandbox(broker, sandbox), tuple(words or ()), user)


def rm(
    sandboxes: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="Sandboxes.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every sandbox of the stack.")] = False,
    stack: StackName = DEFAULT_STACK,
) -> int:
    """Remove sandboxes; a server that uses one gets an error that it is gone."""
    if bool(sandboxes) == everything:
        raise UserError("Which sandboxes?", "gym sandbox rm ID..., or gym sandbox rm --all")
    broker = find_broker(find_session(stack))
    wanted = [one.id for one in list_sandboxes(broker)] if everything else sandboxes or []
    for one in [find_sandbox(broker, each) for each in wanted]:
        remove_sandbox(broker, one)
        console.note(f"removed {one}")
    if not wanted:
        console.note("There was none.")
    return 0


commands: Final[dict[str, Callable[..., int]]] = {
    "ls": ls,
    "exec": exec_,
    "attach": attach,
    "rm": rm,
}

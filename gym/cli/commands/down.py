"""`gym down`: stop everything a stack ever started, also what a killed command left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gym.cli import console
from gym.cli.options import DEFAULT_STACK, StackName
from gym.cli.pages.down_page import stop, stop_all_of
from gym.cli.stack_session import find_home, sweep_leftovers
from gym.cli.typed_stack import TypedStack
from gym.errors import GymError, UserError
from gym.runtime.runtime_names import RuntimeName

Everything = Annotated[bool, typer.Option("--all", help="Every stack that `gym ls` shows.")]
Folder = Annotated[
    Path | None, typer.Option("--folder", metavar="FOLDER", help="The stack of that folder, which may be gone.")
]
Sweep = Annotated[bool, typer.Option("--sweep", help="All containers of all stacks of yours, at once.")]


def command(
    everything: Everything = False, folder: Folder = None, sweep: Sweep = False, stack: StackName = DEFAULT_STACK
) -> int:
    """Stop everything a stack started: gym down; from anywhere: gym down --stack NAME."""
    if sweep:
        homes = sweep_leftovers()
        console.note("\n".join(f"Removed what was left of {home}." for home in homes) or "Nothing was left.")
        return 0
    if everything:
        return _stop_all()
    return stop(*(_home_in(folder, stack) if folder else find_home(stack)))


def _stop_all() -> int:
    """One that cannot be stopped keeps no other from it."""
    from gym.runtime.stack_list import list_stacks  # noqa: PLC0415 (one stack is stopped without a look at the others)

    listed = list_stacks()
    failed = 0
    for one in listed.stacks:
        try:
            with console.busy(f"stopping stack '{one.stack}' of {one.folder}"):
                stop_all_of(one.home, one.runtime)
            console.note(f"Stopped stack '{one.stack}' of {one.folder}.")
        except GymError as error:
            failed += 1
            console.show_error(error)
    if not listed.stacks:
        console.note("No stack of yours runs.")
    if listed.no_engine:
        console.note(f"Stacks of containers were not looked for: {listed.no_engine}")
    return int(failed > 0)


def _home_in(folder: Path, stack: str) -> tuple[Path, RuntimeName]:
    from gym.runtime.stack_list import list_stacks  # noqa: PLC0415 (as above)

    wanted = folder.absolute()
    there = [one for one in list_stacks().stacks if one.folder in (wanted, wanted.resolve())]
    found = [one for one in there if one.stack == stack or not isinstance(stack, TypedStack)]
    if len(found) == 1:
        return found[0].home, found[0].runtime
    if found:
        names = ", ".join(one.stack for one in found)
        raise UserError(f"{len(found)} stacks of {wanted} run: {names}.", "Name one: --stack NAME")
    named = f" '{stack}'" if isinstance(stack, TypedStack) else ""
    raise UserError(f"No stack{named} of {wanted} runs.", "`gym ls` shows all of yours.")

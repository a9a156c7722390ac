"""What Ctrl-C leaves behind, in a line of its own."""

from __future__ import annotations

import contextlib
from pathlib import Path

from gym.cli import console
from gym.labels import stack_option
from gym.runtime.results_folder import STATE_DIR


def tell_what_is_left() -> None:
    """Of the stacks that are found from here; one that cannot be asked is said to be unknown."""
    notes = [note for home in _homes() if (note := _describe(home))]
    console.note_in_new_line(f"interrupted; {'; '.join(notes) or 'nothing is left running'}")


def _homes() -> list[Path]:
    cwd = Path.cwd()
    for folder in (cwd, *cwd.parents):
        if homes := sorted(path.parent for path in folder.glob(f"{STATE_DIR}/*/session.json")):
            return homes
    return []


def _describe(home: Path) -> str:
    option = stack_option(home.name)
    stack = f"stack '{home.name}'"
    with contextlib.suppress(Exception, KeyboardInterrupt):  # an engine that hangs is left alone by a second Ctrl-C
        from gym.cli.stack_session import find_session  # here: other commands need no runtime

        status = find_session(home.name).runtime.status(home)
        return "" if status is None else f"{stack} runs on: gym ps{option} shows it, gym down{option} stops it"
    return f"whether {stack} runs is unknown: gym ps{option}"

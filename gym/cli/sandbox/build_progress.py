"""What the broker builds for sandboxes after a start, as `gym up` shows it: a line while it is built, then its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from rich.status import Status
from rich.text import Text

from gym.cli import console
from gym.cli.sandbox.broker_calls import follow_builds
from gym.cli.sandbox.broker_channel import find_broker
from gym.cli.sign_of_life import LIFE
from gym.cli.stack_session import StackSession
from gym.errors import GymError

LINE_SECONDS: Final = 15.0  # between two lines of one build where no terminal shows each
SHORT_SECONDS: Final = 1.0  # an image that was there already is not news
WIDTH: Final = 100
Show = Callable[[str], None]


def show_builds(session: StackSession) -> None:
    """Returns when all of it is there, or cannot be. Ctrl-C ends the waiting, not the building."""
    try:
        with _progress() as show:
            for line in follow_builds(find_broker(session)):
                _show_line(line, show)
    except KeyboardInterrupt:
        console.note("not waited for: what sandboxes are made from goes on being built (gym logs sandbox)")
    except GymError as error:
        console.note(f"what is built for sandboxes cannot be shown: {error.what}")


def _show_line(line: dict[str, Any], show: Show) -> None:
    whose = f"the sandbox image of {', '.join(line['instances']) or 'the stack'}"
    if not line.get("done"):
        if line["progress"]:
            show(f"building {whose}: {line['progress'][:WIDTH]}")
    elif "error" in line:
        console.note(f"{whose} could not be built: {line['error']['message']}", style="yellow")
    elif line["seconds"] > SHORT_SECONDS:
        console.note(f"{whose} is ready, after {console.format_duration(line['seconds'])}", style="")


@contextmanager
def _progress() -> Iterator[Show]:
    """On a terminal one line that changes; elsewhere a line now and then."""
    terminal = console.err()
    if not terminal.is_terminal:
        yield _BuildLines().show
        return
    status = Status(Text("looking for what is being built for sandboxes", style="dim"), console=terminal)
    with LIFE.hidden(), status:
        yield lambda text: status.update(Text(text, style="dim"))


class _BuildLines:
    def __init__(self) -> None:
        self._next = 0.0

    def show(self, text: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_SECONDS
            console.note(text, style="")

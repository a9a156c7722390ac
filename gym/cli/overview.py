"""What `gym` and `gym --help` print, and `gym --version`: written here, since loading a parser for it takes longer."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from gym import __version__

PURPOSE = "Reinforcement-learning environments for language models: start them, collect verified rollouts."
OPTIONS = {
    "--stack NAME": "Which stack; default: GYM_STACK, else gym.",
    "--version": "Print the version and leave.",
    "--install-completion": "Install completion for this shell; --show-completion prints it.",
    "-h, --help": "Show this, or after a command's name all that it takes.",
}
NARROWEST, WIDEST = 40, 120


def overview(arguments: Sequence[str], commands: Mapping[str, tuple[str, str]]) -> str:
    """The page that was asked for; empty when the arguments ask for something else."""
    if list(arguments) == ["--version"]:
        return f"{__version__}\n"
    if arguments and list(arguments) not in (["-h"], ["--help"]):
        return ""
    return "\n".join(_page(commands)) + "\n"


def _page(commands: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    width = min(max(shutil.get_terminal_size().columns, NARROWEST), WIDEST)
    yield f"{_bold('Usage:')} gym COMMAND [WORDS AND OPTIONS]"
    yield ""
    yield from textwrap.wrap(PURPOSE, width)
    for panel in dict.fromkeys(panel for panel, _ in commands.values()):
        yield from _part(panel, {name: line for name, (where, line) in commands.items() if where == panel}, width)
    yield from _part("Options", OPTIONS, width)


def _part(title: str, lines: Mapping[str, str], width: int) -> Iterator[str]:
    yield ""
    yield _bold(title)
    column = max(10, *(len(name) + 2 for name in lines))
    for name, line in lines.items():
        first, *others = textwrap.wrap(line, width - column - 2)
        yield f"  {_coloured(name)}{' ' * (column - len(name))}{first}"
        yield from (" " * (column + 2) + other for other in others)


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if _is_colourful() else text


def _coloured(text: str) -> str:
    return f"\x1b[36m{text}\x1b[0m" if _is_colourful() else text


def _is_colourful() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"

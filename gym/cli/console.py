"""The one place that prints: results to stdout, everything said beside them to stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from gym.cli.sign_of_life import LIFE, Words
from gym.errors import GymError

PIPE_WIDTH = 10_000
STATE_STYLE = {
    "healthy": "green",
    "starting": "yellow",
    "restarting": "yellow",
    "stopping": "yellow",
    "unhealthy": "red",
    "exited": "red",
}
# Escape sequences of colour are dropped, all other control characters are shown: the author of a description, a log or
# an error's text may move no cursor, set no title or clipboard, and turn no text around.
COLOURS = re.compile(r"(?:\x1b\[|\x9b)[0-9;:]*m")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text without anything that a terminal would obey; lines and tabs stay."""
    return CONTROLS.sub(_picture, COLOURS.sub("", text))


def _picture(found: re.Match[str]) -> str:
    number = ord(found[0])
    return chr(0x2400 + number) if number < 0x20 else "\u2421" if number == 0x7F else "\ufffd"


class SafeConsole(Console):
    """The one way to the terminal for everything that is laid out, live tables and tracebacks included."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(one if one.control else Segment(printable(one.text), one.style) for one in buffer)


def out() -> Console:
    """Standard output as it is now; recreated each time, so a redirected stream is honoured."""
    return _console(stderr=False)


def err() -> Console:
    return _console(stderr=True)


def show(renderable: RenderableType = "") -> None:
    """A result. A plain string is printed as it is, never read as markup."""
    LIFE.said()
    console = out()
    whole = Text(renderable) if isinstance(renderable, str) else renderable
    if console.is_terminal:
        console.print(whole)
        return
    with console.capture() as captured:
        console.print(whole)
    # Columns are filled up with blanks, which a file should not have.
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def show_raw(text: str) -> None:
    """Text for another program or a file: not one character added, wrapped or coloured; on a terminal it is safe."""
    LIFE.said()
    whole = text if text.endswith("\n") else text + "\n"
    sys.stdout.write(printable(whole) if sys.stdout.isatty() else whole)


def show_line(line: str) -> None:
    """One line of a stream, at once."""
    LIFE.said()
    sys.stdout.write((printable(line) if sys.stdout.isatty() else line) + "\n")
    sys.stdout.flush()


def show_bytes(data: bytes, *, error: bool = False) -> None:
    """What a program inside wrote, as it wrote it, at once."""
    LIFE.said()
    stream = sys.stderr.buffer if error else sys.stdout.buffer
    stream.write(data)
    stream.flush()


def show_json(value: Any) -> None:
    show_raw(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def note(text: str, style: str = "dim") -> None:
    """Something said beside the result."""
    LIFE.said()
    err().print(Text(text, style=style))


def prompt(text: str) -> None:
    """Before what a person types in the same line."""
    sys.stdout.write(text)
    sys.stdout.flush()


def note_in_new_line(text: str) -> None:
    """After Ctrl-C: the terminal has written `^C` wherever the cursor stood."""
    if sys.stderr.isatty():
        sys.stderr.write("\n")
    note(text)


def busy(what: str | Words) -> AbstractContextManager[None]:
    """What is going on, for the sign of life beside the result while it takes long; words may change meanwhile."""
    return LIFE.telling((lambda: what) if isinstance(what, str) else what)


def note_line(line: str) -> None:
    """One line of a stream beside the result, for a program to read."""
    LIFE.said()
    sys.stderr.write((printable(line) if sys.stderr.isatty() else line) + "\n")
    sys.stderr.flush()


def show_error(error: GymError) -> None:
    LIFE.said()
    console = err()
    console.print(Text.assemble(("error: ", "bold red"), error.what))
    if error.hint:
        console.print(Text(error.hint, style="cyan"))


def show_bug(error: BaseException, report: Path | None) -> None:
    LIFE.said()
    console = err()
    console.print(Text.assemble(("bug: ", "bold red"), f"{type(error).__name__}: {error}"))
    where = f"A report is in {report}; please attach it to an issue." if report else "No report could be written."
    console.print(Text(f"This is a mistake in gym, not yours. {where}", style="cyan"))


def show_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Texts, each row one line. A file has no width and needs no layout, a quarter of what `gym list` costs."""
    if out().is_terminal:
        show(make_table(columns, rows, lines=True))
        return
    cells = [[printable(" ".join(cell.splitlines())) for cell in row] for row in (columns, *rows)]
    widths = [max(map(cell_len, column)) if any(column[1:]) else 0 for column in zip(*cells, strict=True)]
    lines = (
        "".join(cell + " " * (width - cell_len(cell) + 2) for cell, width in zip(row, widths, strict=True) if width)
        for row in cells
    )
    show_raw("\n".join(line.rstrip() for line in lines))


def make_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    right: Sequence[str] = (),
    lines: bool = False,
) -> Table:
    """A quiet table: no rules, a bold head, columns that align; one that nothing stands in is left out.

    `lines`: every row is one line; the last column is cut where it does not fit.
    """
    cells = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    used = [index for index in range(len(columns)) if not cells or any(row[index] for row in cells)]
    head = any(columns[index].strip() for index in used)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=head)
    for index in used:
        table.add_column(
            columns[index],
            justify="right" if columns[index] in right else "left",
            overflow="fold",
            no_wrap=lines and index != used[-1],
        )
    for row in cells:
        if lines:
            row[-1].no_wrap, row[-1].overflow = True, "ellipsis"
        table.add_row(*(row[index] for index in used))
    return table


def state_text(state: str) -> Text:
    return Text(state, style=STATE_STYLE.get(state, ""))


def _console(*, stderr: bool) -> Console:
    """Lines are folded to a terminal's width; in a file or a pipe a line stays a line."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return SafeConsole(stderr=stderr, highlight=False, soft_wrap=not terminal, width=None if terminal else PIPE_WIDTH)


def format_duration(seconds: float) -> str:
    """0.4 -> "0.4s", 75 -> "1m15s", 7300 -> "2h01m"."""
    if seconds < 60:
        return f"{seconds:.1f}s" if seconds < 10 else f"{seconds:.0f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"
